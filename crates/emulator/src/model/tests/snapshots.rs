//! What a seed stands for, and how loss, queue and rate play together: reviewed once, then never to change unnoticed.

use std::fmt::Write;

use super::*;

#[test]
fn drop_lists_by_seed() {
    let models = [
        ("2 %", Loss::Bernoulli(0.02)),
        ("20 %", Loss::Bernoulli(0.2)),
        ("1 % to bad, 25 % to good", Loss::GilbertElliott { to_bad: 0.01, to_good: 0.25, good: 0.0, bad: 1.0 }),
        ("half lost when bad", Loss::GilbertElliott { to_bad: 0.05, to_good: 0.25, good: 0.001, bad: 0.5 }),
        ("list", Loss::List(vec![0, 7, 199, 200])),
    ];
    let mut lists = String::new();
    for (name, loss) in &models {
        for key in
            [forward(1), forward(2), Key { direction: Way::Backward, ..forward(1) }, Key { link: 1, ..forward(1) }]
        {
            let Key { seed, link, direction } = key;
            writeln!(lists, "{name}, seed {seed}, link {link}, {direction:?}: {:?}", drops(loss, key, 200)).unwrap();
        }
    }
    insta::assert_snapshot!(lists);
}

/// 100 bursts of 10 packets, 10 ms apart: 6.8 Mbit/s.
#[test]
fn loss_by_queue_by_rate() {
    let queues = [QueueLimit::Unlimited, QueueLimit::Packets(5), QueueLimit::Bytes(4000)];
    let rates = [None, Some((10, 0)), Some((10, 15_000)), Some((4, 0)), Some((4, 15_000))];
    let mut table = format!(
        "{:>7} {:>17} {:>8} {:>8} {:>6} {:>8} {:>7} {:>11} {:>11}\n",
        "loss", "queue", "Mbit/s", "burst B", "lost", "no room", "passed", "mean us", "longest us"
    );
    for share in [0.0, 0.05, 0.2] {
        for queue in queues {
            for rate in rates {
                let rate =
                    rate.map(|(megabits, burst_bytes)| Rate { bits_per_second: megabits * 1_000_000, burst_bytes });
                let outcome = outcome(&Impairments { rate, queue, ..only_loss(Loss::Bernoulli(share)) });
                let (megabits, burst) = match rate {
                    None => ("-".to_owned(), "-".to_owned()),
                    Some(rate) => ((rate.bits_per_second / 1_000_000).to_string(), rate.burst_bytes.to_string()),
                };
                let queue = format!("{queue:?}");
                writeln!(table, "{share:>7} {queue:>17} {megabits:>8} {burst:>8} {outcome}").unwrap();
            }
        }
    }
    insta::assert_snapshot!(table);
}

fn outcome(impairments: &Impairments) -> String {
    let mut direction = Direction::new(&impairments.clone().into(), forward(1));
    let flow = direction.flow(&udp(5000));
    let (mut lost, mut no_room, mut waits) = (0, 0, Vec::new());
    for packet in 0..1000 {
        let arrival = packet / 10 * 10 * MILLISECOND;
        let bytes = 200 + (packet * 370 % 1300) as u32;
        match direction.decide(flow, arrival, bytes) {
            Decision::Drop(Cause::Loss) => lost += 1,
            Decision::Drop(Cause::Queue) => no_room += 1,
            Decision::Pass { release, .. } => waits.push((release - arrival) / 1000),
        }
    }
    let passed = waits.len();
    let mean = waits.iter().sum::<u64>() / passed as u64;
    let longest = waits.iter().max().expect("some pass");
    format!("{lost:>6} {no_room:>8} {passed:>7} {mean:>11} {longest:>11}")
}
