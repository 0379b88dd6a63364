//! An interface that is made anew under its name: what sockets had on the old one, they have on the new.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

use ipnet::IpNet;
use weir_dgram::interfaces::{Change, all_there, restore};
use weir_dgram::{Membership, Options, Socket};
use weir_testbed::network::{plug, unplug};
use weir_testbed::{await_that, program};

use crate::network::{Host, cable, payloads, send};

/// All sockets of the process are looked at: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn group(group: &str, source: Option<IpAddr>, interface: Option<&str>) -> Membership {
    Membership { group: group.parse().unwrap(), source, interface: interface.map(str::to_owned) }
}

fn route(host: &Host) {
    let mut netlink = host.netlink();
    let eth0 = netlink.link("eth0").unwrap().index;
    netlink.add_route("224.0.0.0/4".parse::<IpNet>().unwrap(), None, eth0).unwrap();
}

#[test]
fn memberships_move_to_the_new_interface_and_leave_the_old_one() {
    let _alone = ALONE.lock().unwrap();
    let (Some(ip), Some(hosts)) = (program("ip"), cable(1500)) else { return };
    let [a, b] = &hosts;
    route(b);
    let receiver = b.run(|| Socket::bind("[::]:0".parse().unwrap(), &Options::default())).unwrap();
    let stranger = "10.0.0.9".parse().ok();
    let members = [
        group("239.1.1.1", None, Some("eth0")),
        group("239.2.2.2", None, None),
        group("232.1.1.1", Some(a.v4), Some("eth0")),
        group("232.1.1.1", stranger, Some("eth0")),
        group("ff15::1", None, Some("eth0")),
        group("ff35::1", Some(a.v6), Some("eth0")),
    ];
    b.run(|| members.iter().for_each(|member| receiver.join(member).unwrap()));
    assert_eq!(b.run(|| restore(false)), []);
    // The same socket, as one that was given other options: both are looked at.
    let _second = b.run(|| receiver.with_options(&Options::default())).unwrap();
    let all_come = || {
        let options = Options { multicast_interface: Some("eth0".into()), ..Options::default() };
        let to = members.iter().filter(|member| member.source != stranger).map(|member| member.group);
        for to in to {
            let to = SocketAddr::new(to, receiver.local_addr().port());
            let sender = a.run(|| Socket::connect(None, to, &options)).unwrap();
            send(&sender, to.to_string().as_bytes(), 0);
            assert_eq!(payloads(&receiver, 1), [to.to_string().into_bytes()]);
        }
    };
    all_come();
    // More often than a socket may have memberships (net.ipv4.igmp_max_memberships).
    for _ in 0..21 {
        unplug(&hosts, &ip);
        assert_eq!(b.run(|| restore(false)), [Change::Missing("interface eth0 is gone".into())]);
        assert_eq!((b.run(|| restore(false)), all_there()), (vec![], Err("interface eth0 is gone".into())));
        plug(&hosts);
        // By its name: no route leads there.
        assert_eq!((b.run(|| restore(false)), all_there()), (vec![Change::Back("eth0".into())], Ok(())));
    }
    all_come();
    // Nobody saw it go.
    unplug(&hosts, &ip);
    plug(&hosts);
    assert_eq!(b.run(|| restore(false)).len(), 2);
    all_come();
    b.run(|| members.iter().for_each(|member| receiver.leave(member).unwrap()));
    assert_eq!(b.run(|| restore(false)), []);
}

#[test]
fn a_group_that_was_routed_is_routed_anew_when_asked() {
    let _alone = ALONE.lock().unwrap();
    let (Some(ip), Some(hosts)) = (program("ip"), cable(1500)) else { return };
    let [_, b] = &hosts;
    route(b);
    let receiver = b.run(|| Socket::bind("0.0.0.0:0".parse().unwrap(), &Options::default())).unwrap();
    b.run(|| receiver.join(&group("239.1.1.1", None, None))).unwrap();
    unplug(&hosts, &ip);
    let lo = b.netlink().link("lo").unwrap().index;
    b.netlink().add_route("224.0.0.0/4".parse::<IpNet>().unwrap(), None, lo).unwrap();
    assert_eq!(b.run(|| restore(false)), [Change::Missing("interface eth0 is gone".into())]);
    assert_eq!((b.run(|| restore(true)), all_there()), (vec![], Ok(())));
    let sender = b.run(|| {
        Socket::connect(None, SocketAddr::new([239, 1, 1, 1].into(), receiver.local_addr().port()), &Options::default())
    });
    send(&sender.unwrap(), b"by way of lo", 0);
    assert_eq!(payloads(&receiver, 1), [b"by way of lo"]);
}

#[test]
fn a_connected_socket_keeps_its_port_and_waits_for_a_route() {
    let _alone = ALONE.lock().unwrap();
    let (Some(ip), Some(hosts)) = (program("ip"), cable(1500)) else { return };
    let [a, b] = &hosts;
    let options = Options { interface: Some("eth0".into()), ..Options::default() };
    let receiver = b.run(|| Socket::bind(SocketAddr::new(b.v4, 0), &Options::default())).unwrap();
    let sender = a.run(|| Socket::connect(None, receiver.local_addr(), &options)).unwrap();
    let port = sender.local_addr().port();
    unplug(&hosts, &ip);
    a.run(|| restore(false));
    // It is there, but has neither address nor route.
    let status = a.run(|| {
        std::process::Command::new(&ip)
            .args(["link", "add", "eth0", "type", "veth", "peer", "name", "eth1"])
            .status()
            .unwrap()
    });
    assert!(status.success());
    let missing = a.run(|| restore(false));
    assert!(matches!(&missing[..], [Change::Missing(why)] if why.contains("no route leads there")), "{missing:?}");
    unplug(&hosts, &ip);
    plug(&hosts);
    await_that("a route", || !a.run(|| restore(false)).is_empty());
    assert_eq!(all_there(), Ok(()));
    send(&sender, b"again", 0);
    let mut from = None;
    crate::network::receive(&receiver, 1, |message| from = Some(message.source));
    assert_eq!(from, Some(SocketAddr::new(a.v4, port)));
}
