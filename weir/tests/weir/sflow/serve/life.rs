//! Start without a word of configuration, reloads, and the end.

use std::net::UdpSocket;

use nix::sys::signal::Signal;
use weir_testbed::{Ended, Started};

use super::agent::Agent;
use super::{File, Serve};
use crate::service::{ADMIN, Machine};
use crate::weir;

/// On a machine of its own, where the port is free: agents of both families, no flag, no file.
#[test]
fn it_runs_without_configuration() {
    let Some(machine) = Machine::new() else { return };
    let service = machine.run(|| Started::ready(weir(&["sflow", "serve", "--json", "--admin", ADMIN])));
    let mut agents = [Agent::new([10, 1, 2, 3]), Agent::new(std::net::Ipv6Addr::LOCALHOST)];
    for (from, to) in [("127.0.0.1:0", "127.0.0.1:6343"), ("[::1]:0", "[::1]:6343")] {
        let socket = machine.udp(from);
        for agent in &mut agents {
            socket.send_to(&agent.datagram(), to).unwrap();
        }
    }
    while machine.metric("weir_sflow_received_datagrams_total") < 4.0 {}
    assert_eq!(machine.metric("weir_sflow_analysed_datagrams_total"), 4.0);
    assert_eq!(machine.metric("weir_sflow_table_entries{table=\"agents\"}"), 2.0);
    assert_eq!(machine.metric("weir_sflow_ledger_closed"), 1.0);

    // A second one finds the port taken, and says whose it may be.
    let second = machine.run(|| Ended::of(&mut weir(&["sflow", "serve", "--http", "127.0.0.1:0"])));
    let said = second.stderr;
    assert_eq!((second.status, said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("6343") && said.contains("in use"), "{said}");
    service.stop();
}

#[test]
fn a_reload_loses_nothing_and_a_bad_one_changes_nothing() {
    let base = "workers = 2\n[[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\n";
    let file = File::new(base);
    let mut serve = Serve::start(&["-c", &file.path()]);
    let (socket, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), serve.address());
    let mut agent = Agent::new([10, 1, 2, 3]);
    let send = |agent: &mut Agent| _ = socket.send_to(&agent.datagram(), to).unwrap();
    send(&mut agent);
    serve.await_received(1);

    file.write(&format!("alow = [\"10.0.0.0/8\"]\n{base}"));
    serve.signal(Signal::SIGHUP);
    let line = serve.await_line("nothing has changed");
    assert!(line.contains("sflow.toml:1: unknown key `alow`, did you mean `allow`?"), "{line}");
    send(&mut agent);
    assert_eq!(serve.await_received(2)["analysed"], 2);

    file.write(&format!("allow = [\"10.9.0.0/16\"]\n{}", base.replace("workers = 2", "workers = 7")));
    serve.signal(Signal::SIGHUP);
    serve.await_line("workers: a reload does not change it");
    serve.await_line("reloaded");
    send(&mut agent);
    let ledger = serve.await_received(3);
    assert_eq!((ledger["analysed"].clone(), ledger["rejected"]["not_allowed"].clone()), (2.into(), 1.into()));

    file.write(base);
    serve.signal(Signal::SIGHUP);
    serve.await_line("reloaded");
    send(&mut agent);
    // It goes on where it was: the one that was refused is a gap, not a new agent.
    let ledger = serve.await_received(4);
    assert_eq!((ledger["analysed"].clone(), ledger["lost_before"].clone()), (3.into(), 1.into()), "{ledger:#}");
}
