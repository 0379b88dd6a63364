//! Two hosts joined by links of an emulator, in namespaces of their own.

use std::time::{Duration, Instant};

use weir_emulator::datapath::{Emulator, EmulatorSettings, LinkId, LinkPorts, Port};
use weir_emulator::ledger::{Ledger, LinkReport};
use weir_emulator::model::{Direction, Impairments, Key, Plan, Way};
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
pub(crate) use weir_testbed::network::Host;
use weir_testbed::network::namespace;

/// Two hosts and the network between them.
pub(crate) struct Network {
    pub(crate) a: Host,
    pub(crate) b: Host,
    middle: NetNs,
    ports: [u32; 2],
}

/// Makes the network; `None` without the privilege to: the test is skipped.
pub(crate) fn network() -> Option<Network> {
    let middle = namespace()?;
    let mut inside = Netlink::open(&middle).unwrap();
    let mut ports = [0; 2];
    let [a, b] = [1, 2].map(|number: u8| {
        let port = format!("port{number}");
        let host = Host::plugged(number, &middle, &port, 1500);
        let index = inside.link(&port).unwrap().index;
        inside.set_no_link_local(index).unwrap();
        inside.set_up(index).unwrap();
        ports[usize::from(number) - 1] = index;
        host.knows(3 - number);
        host
    });
    Some(Network { a, b, middle, ports })
}

impl Network {
    /// Sets the interface of host a or b down.
    pub(crate) fn set_down(&self, host: &Host) {
        let mut netlink = host.netlink();
        let index = netlink.link("eth0").unwrap().index;
        netlink.set_down(index).unwrap();
    }

    /// Joins the hosts by a link of `emulator`, the same both ways but for the random sequence.
    pub(crate) fn attach(&self, emulator: &Emulator, forward: &Impairments, backward: &Impairments) -> LinkId {
        self.attach_plans(emulator, &forward.clone().into(), &backward.clone().into())
    }

    /// The same with impairments that change.
    pub(crate) fn attach_plans(&self, emulator: &Emulator, forward: &Plan, backward: &Plan) -> LinkId {
        let open = |index| self.middle.run(|| Port::open(index, &EmulatorSettings::default())).unwrap().unwrap();
        let key = |direction| Key { seed: 42, link: 0, direction };
        let link = LinkPorts {
            name: "a - b".into(),
            a: open(self.ports[0]),
            b: open(self.ports[1]),
            forward: Direction::new(forward, key(Way::Forward)),
            backward: Direction::new(backward, key(Way::Backward)),
        };
        emulator.attach(link).unwrap()
    }
}

/// Asks for reports until nothing waits in the link any more and `done` holds; a network that stays quiet without it is
/// a failure.
pub(crate) fn settled(emulator: &Emulator, link: LinkId, done: impl Fn(&LinkReport) -> bool) -> LinkReport {
    let start = Instant::now();
    loop {
        let report = emulator.report(link).unwrap();
        let waits = report.forward.ledger.in_flight + report.backward.ledger.in_flight;
        if waits == 0 && done(&report) {
            return report;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "does not settle: {report:#?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Every account closes, and nothing was lost but on purpose.
pub(crate) fn assert_sound(ledger: &Ledger) {
    assert_eq!(ledger.unexplained(), 0, "{ledger:#?}");
    let accidents = [
        ledger.buffer_dropped,
        ledger.send_failed,
        ledger.malformed,
        ledger.socket_dropped_frames,
        ledger.unlisted_flows,
    ];
    assert_eq!(accidents, [0; 5], "{ledger:#?}");
}
