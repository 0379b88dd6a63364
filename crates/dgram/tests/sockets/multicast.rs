//! Groups through a switch.

use std::net::{IpAddr, SocketAddr};

use weir_dgram::{Error, Membership, Options, Socket};

use crate::network::{Host, on_loopback, payloads, send, switched};

const PORT: u16 = 5000;

fn member(group: &str, source: Option<IpAddr>) -> Membership {
    Membership { group: group.parse().unwrap(), source, interface: Some("eth0".into()) }
}

/// A socket that sends to a group through eth0.
fn sender(host: &Host, group: &str, options: Options) -> Socket {
    let to = SocketAddr::new(group.parse().unwrap(), PORT);
    let options = Options { multicast_interface: Some("eth0".into()), ..options };
    host.run(|| Socket::connect(None, to, &options)).unwrap()
}

/// A socket that receives at every address of the group's family.
fn receiver(host: &Host, group: &str) -> Socket {
    let any = if group.contains(':') { "[::]" } else { "0.0.0.0" };
    let options = Options { reuse_address: true, ..Options::default() };
    host.run(|| Socket::bind(format!("{any}:{PORT}").parse().unwrap(), &options)).unwrap()
}

#[test]
fn members_hear_every_source_or_the_one_they_chose() {
    let Some(([a, b, c], _switch)) = switched() else { return };
    for (any, specific) in [("239.1.1.1", "232.1.1.1"), ("ff15::1:1", "ff35::1:1")] {
        let own = |host: &Host| if any.contains(':') { host.v6 } else { host.v4 };
        let (all, one) = (receiver(&c, any), receiver(&b, specific));
        all.join(&member(any, None)).unwrap();
        one.join(&member(specific, Some(own(&a)))).unwrap();
        // What b and c send to the specific group must not be heard; what follows is the proof that it was not.
        for host in [&b, &c] {
            assert_eq!(send(&sender(host, specific, Options::default()), b"foreign", 0).messages, 1);
            assert_eq!(send(&sender(host, any, Options::default()), b"any", 0).messages, 1);
        }
        assert_eq!(send(&sender(&a, specific, Options::default()), b"chosen", 0).messages, 1);
        assert_eq!(payloads(&one, 1), [b"chosen"]);
        assert_eq!(payloads(&all, 2), [b"any", b"any"]);

        one.leave(&member(specific, Some(own(&a)))).unwrap();
        let twice = one.leave(&member(specific, Some(own(&a)))).unwrap_err().to_string();
        let expected = format!("leave {specific} from {} on eth0: ", own(&a));
        assert!(twice.starts_with(&expected), "{twice}");
    }
}

#[test]
fn a_socket_hears_only_its_own_groups() {
    let Some(([a, b, _c], _switch)) = switched() else { return };
    for groups in [["239.1.1.1", "239.1.1.2"], ["ff15::1", "ff15::2"]] {
        let members = groups.map(|group| {
            let socket = receiver(&b, group);
            socket.join(&member(group, None)).unwrap();
            socket
        });
        for group in groups {
            assert_eq!(send(&sender(&a, group, Options::default()), group.as_bytes(), 0).messages, 1);
        }
        for (socket, group) in members.iter().zip(groups) {
            assert_eq!(payloads(socket, 1), [group.as_bytes()]);
        }
    }
}

#[test]
fn a_dual_socket_joins_groups_of_both_families() {
    let Some(([a, b, _c], _switch)) = switched() else { return };
    let both = receiver(&b, "ff15::1");
    for group in ["239.1.1.1", "ff15::1"] {
        both.join(&member(group, None)).unwrap();
        let sender = sender(&a, group, Options::default());
        assert_eq!(send(&sender, b"x", 0).messages, 1);
        crate::network::receive(&both, 1, |message| assert_eq!(message.source, sender.local_addr()));
    }
}

#[test]
fn the_senders_own_machine_hears_it_or_not() {
    let Some(([a, b, _c], _switch)) = switched() else { return };
    for group in ["239.1.1.1", "ff15::1"] {
        let (own, other) = (receiver(&a, group), receiver(&b, group));
        own.join(&member(group, None)).unwrap();
        other.join(&member(group, None)).unwrap();
        let quiet = Options { multicast_loop: Some(false), multicast_ttl: Some(3), ..Options::default() };
        assert_eq!(send(&sender(&a, group, quiet), b"out", 0).messages, 1);
        assert_eq!(send(&sender(&a, group, Options::default()), b"round", 0).messages, 1);
        assert_eq!(payloads(&own, 1), [b"round"]);
        assert_eq!(payloads(&other, 2), [&b"out"[..], b"round"]);
    }
}

#[test]
fn what_cannot_be_joined_is_refused_by_name() {
    on_loopback(|| {
        let socket = Socket::bind("0.0.0.0:0".parse().unwrap(), &Options::default()).unwrap();
        let join = |group: &str, source: Option<&str>, interface: Option<&str>| {
            let source = source.map(|source| source.parse().unwrap());
            let interface = interface.map(str::to_owned);
            socket.join(&Membership { group: group.parse().unwrap(), source, interface }).unwrap_err()
        };
        assert_eq!(
            join("10.0.0.1", None, None).to_string(),
            "join 10.0.0.1: no multicast address (224.0.0.0/4 or ff00::/8)"
        );
        assert!(matches!(join("239.1.1.1", Some("::1"), None), Error::Family { .. }));
        assert!(matches!(join("ff15::1", None, Some("lo")), Error::Family { .. }));
        assert_eq!(join("239.1.1.1", None, Some("nowhere")).to_string(), "find the interface nowhere: no such device");
        let expected = "join 239.1.1.1: no such device (no route to the group: name the interface, or add a route to \
                        224.0.0.0/4 or ff00::/8)";
        assert_eq!(join("239.1.1.1", None, None).to_string(), expected);
        socket
            .join(&Membership { group: "239.1.1.1".parse().unwrap(), source: None, interface: Some("lo".into()) })
            .unwrap();
        let twice = join("239.1.1.1", None, Some("lo")).to_string();
        assert_eq!(twice, "join 239.1.1.1 on lo: address already in use (this socket is a member already)");
    });
}
