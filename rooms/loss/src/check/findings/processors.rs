//! Packet work: backlogs, its budget, and how it is shared out.

use weir_units::Span;

use super::{Case, Change, Finding, change, number};
use crate::check::facts::{Counted, Interface, Softnet};
use crate::check::setting::Setting;
use crate::places::Place;

pub(super) fn audit(case: &Case<'_>) -> Vec<Finding> {
    backlog(case).into_iter().chain(budget(case)).chain(one_of_many(case)).collect()
}

/// Packets wait for a processor's packet work: those of loopback, veth and of steered queues.
fn backlog(case: &Case<'_>) -> Option<Finding> {
    let most = case.facts.settings.netdev_max_backlog?;
    let dropped = total(&case.facts.softnet, |path| path.dropped);
    let steers = |interface: &Interface| interface.queues.iter().any(|queue| queue.steered_to > 0);
    let user = case.facts.interfaces.iter().find(|interface| interface.through_backlog || steers(interface));
    let waiting = case.load.within(PACKET_WORK_WAITS);
    let short = user.is_some() && most < waiting;
    if !short && dropped.recent == 0 {
        return None;
    }
    let wanted = waiting.max(most.saturating_mul(2)).next_multiple_of(1000);
    let setting = Setting::sysctl("net/core/netdev_max_backlog");
    let change = Change { setting, value: wanted.to_string() };
    let what = "packets that wait for a processor may find its backlog full".to_owned();
    let by = user.map_or_else(String::new, |interface| format!(", used by {}", interface.name));
    Some(
        Finding::mended("netdev_max_backlog", Place::Backlog, what, vec![change])
            .with("/proc/sys/net/core/netdev_max_backlog", format!("{} packets{by}", number(most)))
            .counted("/proc/net/softnet_stat, column 2", "packets dropped since boot", dropped)
            .need(format!(
                "{} packets arrive at {} while packet work waits {PACKET_WORK_WAITS} for a busy processor",
                number(waiting),
                case.load.rate
            ))
            .cost("memory only while they wait; for all interfaces of the machine; those at the end are older"),
    )
}

/// Rounds of packet work that end with packets still waiting are no loss, but late, and a ring fills meanwhile.
fn budget(case: &Case<'_>) -> Option<Finding> {
    let (packets, usecs) = (case.facts.settings.netdev_budget?, case.facts.settings.netdev_budget_usecs?);
    let squeezed = total(&case.facts.softnet, |path| path.squeezed);
    if (squeezed.recent as f64) < SQUEEZES_PER_SECOND * case.facts.watched_s.max(f64::MIN_POSITIVE) {
        return None;
    }
    let changes = vec![
        change(Setting::sysctl("net/core/netdev_budget"), packets.saturating_mul(2)),
        change(Setting::sysctl("net/core/netdev_budget_usecs"), usecs.saturating_mul(2)),
    ];
    let what = "packet work is cut short with packets still waiting".to_owned();
    Some(
        Finding::mended("netdev_budget", Place::ReceiveRing, what, changes)
            .counted("/proc/net/softnet_stat, column 3", "rounds cut short since boot", squeezed)
            .with("/proc/sys/net/core/netdev_budget", number(packets))
            .with("/proc/sys/net/core/netdev_budget_usecs", format!("{} us", number(usecs)))
            .need(format!("fewer than {SQUEEZES_PER_SECOND} a second (being cut short is no loss by itself)"))
            .cost("programs on that processor wait longer for packet work: up to twice"),
    )
}

/// One processor does the packet work, the others none.
fn one_of_many(case: &Case<'_>) -> Option<Finding> {
    let facts = case.facts;
    if facts.processors < 2 {
        return None;
    }
    let busiest = facts.softnet.iter().max_by_key(|path| path.processed.recent)?;
    let all = total(&facts.softnet, |path| path.processed).recent;
    let per_second = busiest.processed.recent as f64 / facts.watched_s.max(f64::MIN_POSITIVE);
    let alone = busiest.processed.recent as f64 >= 0.9 * all as f64;
    let busy = alone && per_second > PACKETS_OF_ONE / 2.0;
    // Virtual links run on the processor of the sender.
    let narrow = facts.interfaces.iter().find(|interface| {
        !interface.through_backlog
            && interface.queues.len() == 1
            && interface.queues.iter().all(|queue| queue.steered_to == 0)
    });
    if !(busy || case.load.per_second() > PACKETS_OF_ONE && narrow.is_some()) {
        return None;
    }
    let interface = narrow.or(facts.interfaces.iter().find(|interface| !interface.through_backlog))?;
    let more = interface.most_queues.filter(|most| *most as usize > interface.queues.len());
    let command = match more {
        Some(most) => format!(
            "ethtool -L {0} combined {1} && ethtool -N {0} rx-flow-hash udp4 sdfn",
            interface.name,
            (most as usize).min(facts.processors)
        ),
        // A change of the mask would move flows at once, in mid-stream.
        None => format!("echo {:x} > /sys/class/net/{}/queues/rx-0/rps_cpus", mask(facts.processors), interface.name),
    };
    let what = format!("one processor of {} does all packet work of {}", facts.processors, interface.name);
    let steered: usize = interface.queues.iter().map(|queue| queue.steered_to).max().unwrap_or(0);
    Some(
        Finding::advised("one_processor", Place::ReceiveRing, what, command)
            .with(
                "/proc/net/softnet_stat, column 1",
                format!(
                    "processor {}: {} packets/s of {}/s",
                    busiest.cpu,
                    number(per_second as u64),
                    number((all as f64 / facts.watched_s.max(f64::MIN_POSITIVE)) as u64)
                ),
            )
            .with(
                format!("/sys/class/net/{}/queues", interface.name),
                format!("{} receive queue(s), steered to {steered} processor(s)", interface.queues.len()),
            )
            .need(format!(
                "a processor takes about {}/s; the load is {}",
                number(PACKETS_OF_ONE as u64),
                case.load.rate
            ))
            .cost(
                "flows spread by address and port: one flow alone stays on one processor; other programs share theirs",
            ),
    )
}

fn total(paths: &[Softnet], of: impl Fn(&Softnet) -> Counted) -> Counted {
    paths
        .iter()
        .map(of)
        .fold(Counted::default(), |sum, one| Counted { total: sum.total + one.total, recent: sum.recent + one.recent })
}

/// Bits of so many processors.
fn mask(processors: usize) -> u64 {
    u64::MAX.checked_shr(64_u32.saturating_sub(processors as u32)).unwrap_or(0)
}

/// How long ksoftirqd may wait for a processor that programs keep busy: some slices of the scheduler.
const PACKET_WORK_WAITS: Span = Span::from_millis(10);

/// Some of it is in the nature of a busy machine.
const SQUEEZES_PER_SECOND: f64 = 10.0;

/// Packets that one processor takes from a card and delivers, a second: some 3 us each.
const PACKETS_OF_ONE: f64 = 300_000.0;
