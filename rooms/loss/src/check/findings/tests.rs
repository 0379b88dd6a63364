use super::*;
use crate::check::facts::{
    Bridge, Interface, Moderation, Pause, Queue, Receiver, Ring, Softnet, Sysctls, Tracking, Truesize,
};

fn audit(facts: &Facts, load: &Load) -> Vec<Finding> {
    super::audit(facts, load, load.need(facts.truesize.bytes))
}

/// The load of the examples.
fn load() -> Load {
    Load { rate: "50k/s".parse().unwrap(), payload: "200B".parse().unwrap(), stall: "40ms".parse().unwrap() }
}

/// A machine with which nothing is wrong for it.
fn healthy() -> Facts {
    let cpu = |cpu| Softnet { cpu, processed: counted(90_000, 10_000), ..Softnet::default() };
    Facts {
        watched_s: 1.0,
        processors: 4,
        memory: Some(16 << 30),
        truesize: Truesize { bytes: 1280, source: "measured over veth".into() },
        settings: Sysctls {
            rmem_max: Some(4_194_304),
            rmem_default: Some(4_194_304),
            netdev_max_backlog: Some(1000),
            netdev_budget: Some(300),
            netdev_budget_usecs: Some(8000),
            udp_mem: Some([100_000, 150_000, 200_000]),
        },
        page: Some(4096),
        udp_pages: Some(10),
        softnet: vec![cpu(0), cpu(1)],
        interfaces: vec![Interface {
            name: "eth0".into(),
            mtu: 1500,
            speed_mbit: Some(1000),
            hardware: true,
            ring: Some(Ring { length: 512, most: 4096 }),
            moderation: Some(Moderation { usecs: 100, frames: 0, adaptive: false }),
            pause: Some(Pause { obeys: true, sends: true }),
            queues: vec![Queue { number: 0, steered_to: 0 }],
            rp_filter: Some(0),
            default_route: Some(true),
            ..Interface::default()
        }],
        ..Facts::default()
    }
}

fn counted(total: u64, recent: u64) -> Counted {
    Counted { total, recent }
}

/// Names of what is found after a change of the healthy machine.
fn found(change: impl FnOnce(&mut Facts)) -> Vec<&'static str> {
    findings(change).iter().map(|finding| finding.name).collect()
}

fn findings(change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    let mut facts = healthy();
    change(&mut facts);
    let findings = audit(&facts, &load());
    for finding in &findings {
        assert!(
            !finding.evidence.is_empty() && finding.evidence.iter().all(|one| !one.value.is_empty()),
            "{finding:?}"
        );
        assert!(
            ![&finding.what, &finding.need, &finding.command, &finding.cost].contains(&&String::new()),
            "{finding:?}"
        );
    }
    findings
}

fn receiver(buffer: u64) -> Receiver {
    Receiver {
        address: "0.0.0.0:5000".parse().unwrap(),
        cookie: 7,
        inode: 0,
        pid: Some(4711),
        process: Some("reader".into()),
        buffer,
        level: buffer / 2,
        drops: counted(20, 3),
        hangs: false,
    }
}

#[test]
fn nothing_is_wrong_with_a_healthy_machine_or_an_unknown_one() {
    assert_eq!(found(|_| ()), [""; 0]);
    let unknown = Facts { truesize: healthy().truesize, ..Facts::default() };
    assert!(audit(&unknown, &load()).is_empty());
}

#[test]
fn no_buffer_is_advised_to_a_reader_that_hangs() {
    let hanging = || Receiver { hangs: true, ..receiver(4096) };
    let found = findings(|facts| facts.receivers = vec![hanging()]);
    assert_eq!(found.iter().map(|finding| finding.name).collect::<Vec<_>>(), ["reader"]);
    assert!(found[0].what.ends_with("reads nothing: no buffer helps"), "{found:?}");
    let found = findings(|facts| facts.losing = vec![hanging()]);
    assert_eq!(found.iter().map(|finding| finding.name).collect::<Vec<_>>(), ["reader"]);
    // It may stall for as long as that.
    let found = findings(|facts| (facts.receivers, facts.watched_s) = (vec![hanging()], 0.01));
    assert_eq!(found[0].name, "receive_buffer");
}

#[test]
fn a_payload_that_is_a_mean_is_told_as_one() {
    for payload_is_mean in [false, true] {
        let found = findings(|facts| {
            facts.payload_is_mean = payload_is_mean;
            facts.interfaces[0].mtu = 200;
        });
        assert_eq!(found[0].what.contains("by their mean size"), payload_is_mean, "{found:?}");
    }
}

#[test]
fn each_fault_is_found_alone() {
    let eth0 = |facts: &mut Facts, change: &dyn Fn(&mut Interface)| change(&mut facts.interfaces[0]);
    assert_eq!(found(|facts| facts.settings.rmem_default = Some(212_992)), ["rmem_default"]);
    assert_eq!(found(|facts| facts.settings.rmem_max = Some(212_992)), ["rmem_max"]);
    assert_eq!(found(|facts| facts.settings.udp_mem = Some([100, 200, 300])), ["udp_mem"]);
    assert_eq!(found(|facts| facts.memory_errors = Some(counted(5, 1))), ["udp_mem"]);
    assert_eq!(found(|facts| facts.softnet[1].dropped = counted(9, 1)), ["netdev_max_backlog"]);
    assert_eq!(found(|facts| facts.softnet[1].squeezed = counted(900, 100)), ["netdev_budget"]);
    assert_eq!(found(|facts| eth0(facts, &|eth0| eth0.speed_mbit = Some(100))), ["speed"]);
    assert_eq!(found(|facts| eth0(facts, &|eth0| eth0.mtu = 200)), ["fragments"]);
    assert_eq!(found(|facts| eth0(facts, &|eth0| eth0.ring = Some(Ring { length: 64, most: 256 }))), ["ring"]);
    assert_eq!(found(|facts| eth0(facts, &|eth0| eth0.moderation = Some(Moderation::default()))), ["interrupts"]);
    let missed = |eth0: &mut Interface| {
        (eth0.ring_drops, eth0.pause) = (counted(40, 4), Some(Pause { obeys: true, sends: false }));
        eth0.ring = Some(Ring { length: 4096, most: 4096 });
    };
    assert_eq!(found(|facts| eth0(facts, &missed)), ["pause"]);
    let full = Tracking { entries: 90, most: Some(100), drops: counted(0, 0) };
    assert_eq!(found(|facts| facts.tracking = Some(full)), ["conntrack"]);
    let dropping = Tracking { entries: 1, most: Some(100), drops: counted(7, 7) };
    assert_eq!(found(|facts| facts.tracking = Some(dropping)), ["conntrack"]);
    let busy = |facts: &mut Facts| {
        facts.softnet[0].processed = counted(900_000, 400_000);
        facts.softnet[1].processed = counted(0, 0);
    };
    assert_eq!(found(busy), ["one_processor"]);
}

/// Whatever was stated: no all-clear while a counter moves.
#[test]
fn a_socket_that_loses_now_is_found_though_nobody_asked_for_it() {
    let losing = |recent| Receiver { drops: counted(30_000, recent), ..receiver(8 << 20) };
    assert_eq!(found(|facts| facts.losing = vec![losing(700)]), ["losing"]);
    assert_eq!(found(|facts| facts.losing = vec![losing(0)]), [""; 0]);
    assert_eq!(found(|facts| facts.receivers = vec![losing(700)]), ["losing"]);
}

#[test]
fn what_was_counted_before_we_looked_is_no_fault_now() {
    let past = |facts: &mut Facts| {
        facts.softnet[0].dropped = counted(1000, 0);
        facts.softnet[0].squeezed = counted(1000, 0);
        facts.memory_errors = Some(counted(1000, 0));
        facts.reassembly_failures = Some(counted(1000, 0));
        facts.reverse_path_drops = Some(counted(1000, 0));
        facts.interfaces[0].ring_drops = counted(1000, 0);
    };
    assert_eq!(found(past), [""; 0]);
}

#[test]
fn the_reverse_path_filter_is_wrong_where_the_way_back_leads_elsewhere() {
    let strict = |facts: &mut Facts, default_route| {
        (facts.interfaces[0].rp_filter, facts.interfaces[0].default_route) = (Some(1), default_route);
    };
    assert_eq!(found(|facts| strict(facts, Some(true))), [""; 0]);
    assert_eq!(found(|facts| strict(facts, Some(false))), ["rp_filter"]);
    assert_eq!(found(|facts| strict(facts, None)), [""; 0]);
    let group = |facts: &mut Facts| {
        strict(facts, None);
        facts.group = true;
    };
    assert_eq!(found(group), ["rp_filter"]);
    let dropped = |facts: &mut Facts| {
        strict(facts, Some(true));
        facts.reverse_path_drops = Some(counted(2, 2));
    };
    let findings = findings(dropped);
    assert_eq!(findings[0].command, "sysctl -w net.ipv4.conf.eth0.rp_filter=2");
}

#[test]
fn bridges() {
    let bridge = |asked, asks, snoops| Bridge { name: "br0".into(), snoops, asks, asked, ports: Vec::new() };
    let with = |group: bool, bridge: Bridge| {
        move |facts: &mut Facts| {
            facts.group = group;
            facts.bridges = vec![bridge];
        }
    };
    assert_eq!(found(with(true, bridge(Some(false), false, true))), ["querier"]);
    assert_eq!(found(with(false, bridge(Some(false), false, true))), [""; 0]);
    assert_eq!(found(with(true, bridge(Some(true), false, true))), [""; 0]);
    assert_eq!(found(with(true, bridge(None, false, true))), [""; 0]);
    assert_eq!(found(with(true, bridge(Some(false), true, true))), [""; 0]);
    assert_eq!(found(with(true, bridge(Some(false), false, false))), [""; 0]);
    let ports = |slow| Bridge { ports: vec![("p1".into(), 10_000), ("p2".into(), slow)], ..bridge(None, false, false) };
    assert_eq!(found(with(false, ports(100))), ["mixed_speeds"]);
    assert_eq!(found(with(false, ports(1000))), [""; 0]);
    assert_eq!(found(with(false, ports(10_000))), [""; 0]);
}

#[test]
fn a_running_receiver_is_mended_itself() {
    let findings = findings(|facts| {
        facts.settings.rmem_default = Some(212_992);
        facts.receivers = vec![receiver(212_992), Receiver { drops: counted(20, 0), ..receiver(8 << 20) }];
    });
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    let [change] = &finding.changes[..] else { panic!("{finding:?}") };
    assert_eq!((finding.name, &*change.value), ("receive_buffer", "3416064"));
    assert!(matches!(&change.setting, Setting::SocketBuffer { cookie: 7, .. }), "{change:?}");
    // Whose it is cannot be seen: then it cannot be borrowed either.
    let hidden = Receiver { pid: None, process: None, ..receiver(212_992) };
    let findings = self::findings(|facts| facts.receivers = vec![hidden]);
    assert_eq!((findings[0].name, &*findings[0].changes), ("receive_buffer", &[][..]));
}

#[test]
fn loads_that_need_more() {
    let of = |rate: &str, payload: &str, change: &dyn Fn(&mut Facts)| {
        let mut facts = healthy();
        change(&mut facts);
        let load = Load { rate: rate.parse().unwrap(), payload: payload.parse().unwrap(), ..load() };
        audit(&facts, &load).iter().map(|finding| finding.name).collect::<Vec<_>>()
    };
    assert_eq!(of("200k/s", "64B", &|_| ()), ["rmem_max", "rmem_default"]);
    let virtual_link = |facts: &mut Facts| {
        facts.settings.rmem_max = Some(1 << 30);
        facts.settings.rmem_default = Some(1 << 30);
        facts.interfaces =
            vec![Interface { name: "veth0".into(), mtu: 1500, through_backlog: true, ..Interface::default() }];
    };
    assert_eq!(of("100k/s", "64B", &virtual_link), [""; 0]);
    assert_eq!(of("200k/s", "64B", &virtual_link), ["netdev_max_backlog"]);
    assert_eq!(of("1k/s", "1473B", &|_| ()), ["fragments"]);
    assert_eq!(of("1k/s", "1472B", &|_| ()), [""; 0]);
}

#[test]
fn findings_in_words() {
    let findings = findings(|facts| {
        facts.settings.rmem_max = Some(212_992);
        facts.settings.rmem_default = Some(212_992);
        facts.settings.udp_mem = Some([100, 200, 300]);
        facts.softnet[0].dropped = counted(12, 3);
        facts.softnet[0].squeezed = counted(90, 30);
        facts.softnet[0].processed = counted(900_000, 400_000);
        facts.softnet[1].processed = counted(0, 0);
        facts.interfaces[0].ring = Some(Ring { length: 64, most: 256 });
        facts.interfaces[0].moderation = Some(Moderation::default());
        (facts.interfaces[0].rp_filter, facts.interfaces[0].default_route) = (Some(1), Some(false));
        facts.tracking = Some(Tracking { entries: 250_000, most: Some(262_144), drops: counted(7, 7) });
    });
    let text: Vec<String> = findings
        .iter()
        .map(|finding| {
            let evidence: Vec<String> =
                finding.evidence.iter().map(|one| format!("{}: {}", one.source, one.value)).collect();
            [
                format!("{} ({})", finding.what, finding.name),
                evidence.join(" | "),
                finding.need.clone(),
                finding.command.clone(),
                finding.cost.clone(),
            ]
            .join("\n  ")
        })
        .collect();
    insta::assert_snapshot!(text.join("\n").replace('\u{2009}', "_"));
}
