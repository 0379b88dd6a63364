//! Who is let in, who must wait, who has to go.

use weir_wire::sflow::DataSource;

use super::{Agents, Limits, MILLISECOND, SECOND, Verdict, agents, from, told, who};

const SMALL: Limits = Limits {
    agents: 2_000,
    streams: 64,
    sources: 3_000,
    sources_of_agent: 20,
    sources_of_unproven: 4,
    silence: 900 * SECOND,
    unproven_silence: 180 * SECOND,
};

fn send(agents: &mut Agents<u32>, now: u64, agent: u32, turn: u32) -> Verdict {
    agents.datagram(now, who(agent), from(1), &told(turn, (now / MILLISECOND) as u32))
}

/// 10,000 forged addresses in a second, again and again, while 100 agents go on, and one that is new.
#[test]
fn a_flood_of_forged_agents_pushes_nobody_out() {
    let mut agents = agents(Limits { agents: 4_000, ..SMALL });
    let mut now = 1_000 * SECOND;
    for turn in 0..10 {
        for agent in 0..100 {
            assert!(send(&mut agents, now, agent, turn).is_ok());
        }
        now += SECOND;
    }
    let mut forged = 1_000_000;
    for turn in 10..30 {
        for step in 0..10_000 {
            forged += 1;
            now += SECOND / 10_000;
            // Refused, where all at which the table looks are known for long.
            let _ = send(&mut agents, now, forged, 77);
            if step % 1_000 == 0 {
                assert!(send(&mut agents, now, 100, 10 * turn + step / 1_000).is_ok());
            }
        }
        for agent in 0..=100 {
            let known = agents.agent(&who(agent)).unwrap();
            assert_eq!((known.ledger().sequence.lost, known.streams().len()), (0, 1), "agent {agent} in turn {turn}");
        }
        (0..100).for_each(|agent| assert!(send(&mut agents, now, agent, turn).is_ok()));
        agents.sweep(now, 1_000);
    }
    assert_eq!((agents.len(), agents.totals().refused_agents), (4_000, 200_000 + 101 - 4_000));
    // They are forgotten in minutes, the others not.
    for _ in 0..200 {
        now += SECOND;
        agents.sweep(now, 1_000);
    }
    assert_eq!(agents.len(), 101);
}

#[test]
fn a_full_table_refuses_and_forgets_by_age_alone() {
    let mut agents = agents(Limits { agents: 50, ..SMALL });
    let mut now = 1_000 * SECOND;
    // Of those that are known by now nobody goes for the others.
    for (turn, most) in (0..10).map(|turn| (turn, if turn < 8 { 50 } else { 60 })) {
        for agent in 0..most {
            let _ = send(&mut agents, now, agent, turn);
        }
        now += SECOND;
    }
    assert_eq!((agents.len(), agents.totals().refused_agents), (50, 20));
    now += 901 * SECOND;
    agents.sweep(now, 50);
    assert_eq!(agents.len(), 0);
    assert!(send(&mut agents, now, 55, 9).is_ok());
}

#[test]
fn data_sources_have_limits_of_an_agent_and_of_all() {
    let mut agents = agents(Limits { sources: 100, ..SMALL });
    let sources = |agents: &mut Agents<u32>, now, agent, turn| match send(agents, now, agent, turn) {
        Ok(placed) => (0..50).filter(|&index| agents.source(&placed, DataSource { class: 0, index }).is_some()).count(),
        other => panic!("{other:?}"),
    };
    let now = 1_000 * SECOND;
    // Nobody knows this one.
    assert_eq!(sources(&mut agents, now, 1, 1), 4);
    for agent in 1..10 {
        for turn in 1..8 {
            let _ = send(&mut agents, now, agent, turn);
        }
        let known = sources(&mut agents, now + 2 * SECOND, agent, 8);
        assert_eq!(known, if agent <= 5 { 20 } else { 0 }, "{agent}");
    }
    assert_eq!(agents.source_count(), 100);
    // Those that are silent make room, also where their agent goes on.
    let later = now + 903 * SECOND;
    assert!(sources(&mut agents, later - SECOND, 1, 9) > 0);
    for _ in 0..20 {
        agents.sweep(later + 500 * SECOND, 100);
    }
    let known = agents.agent(&who(1)).map_or(0, |agent| agents.sources_of(agent).count());
    assert_eq!((agents.len(), agents.source_count(), known), (1, 20, 20));
}

/// What the table costs, an agent with 20 data sources; and that the cost of a look does not grow with them.
#[test]
fn sizes_are_small() {
    let agent = size_of::<super::super::Agent>() + size_of::<super::super::Stream>();
    let source = size_of::<super::super::Source<[usize; 2]>>();
    println!("agent {agent} B, data source {source} B");
    assert!(agent <= 640 && source <= 96, "{agent} {source}");
}
