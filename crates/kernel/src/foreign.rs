//! What reads text and bytes that others write, all of it, for the targets in fuzz/ and nobody else.

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_sock_diag::SockDiagMessage;

use crate::counters::columns::Columns;
use crate::counters::{LinkCounters, Snmp, conntrack, interfaces, neighbours, qdiscs, queues, sockstat, softnet};
use crate::host;
use crate::links::mdb;
use crate::namespaces::find;
use crate::netlink::{Raw, attributes, messages};
use crate::next_hops;
use crate::processes;
use crate::processors::activity;
use crate::sockets::{diag, groups, owners, proc};

/// Text of /proc and /sys, read as each of the files that are.
pub fn proc_text(text: &str) {
    let mut snmp = Snmp::default();
    snmp.add_tables(text);
    snmp.add_list(text);
    snmp.since(&snmp.clone());
    let columns = Columns::parse(text);
    let _ = (columns.first("entries"), columns.sum("entries"));
    let _ = (conntrack::parse(text, Some(1), None), interfaces::parse(text), softnet::parse(text));
    let _ = sockstat::values(text, "UDP", ["inuse", "mem"]);
    let _ = (proc::parse(text), groups::parse_igmp(text), groups::parse_igmp6(text));
    let _ =
        (owners::parse_link(text), find::parse_link(text), processes::ignored(text, nix::sys::signal::Signal::SIGHUP));
    let _ = (activity::lines(text), host::field(text, "model name"));
}

/// A datagram of netlink, read as an answer to each of the questions that are asked.
pub fn netlink(bytes: &[u8]) {
    for message in messages::<RouteNetlinkMessage>(bytes).map_while(Result::ok) {
        if let NetlinkPayload::InnerMessage(message) = &message.payload {
            let _ = next_hops::change(message);
        }
        match message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => drop(LinkCounters::from_message(link)),
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewNeighbour(neighbour)) => {
                let _ = neighbours::unresolved_neighbour(&neighbour);
            }
            _ => {}
        }
    }
    for message in messages::<SockDiagMessage>(bytes).map_while(Result::ok) {
        if let NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(socket)) = message.payload {
            let _ = diag::udp_socket(&socket);
        }
    }
    for message in messages::<Raw>(bytes).map_while(Result::ok) {
        if let NetlinkPayload::InnerMessage(Raw { payload, .. }) = message.payload {
            let _ = (qdiscs::parse(&payload), queues::parse(&payload), mdb::group_ports(&payload));
        }
    }
    // And what is behind a header that nobody has checked.
    let _ = (qdiscs::parse(bytes), queues::parse(bytes), mdb::group_ports(bytes));
    assert!(attributes(bytes).count() <= bytes.len() / 4);
}
