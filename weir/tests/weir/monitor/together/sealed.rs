//! Stations that sign and encrypt, and those who would be them.

use std::net::UdpSocket;
use std::path::Path;

use socket2::SockRef;

use super::*;
use crate::network::{Host, network};

/// Keys in a directory.
fn key(path: &Path, flags: &[&str]) -> String {
    let made = Ended::of(weir(&["monitor", "key", "--out", path.to_str().unwrap()]).args(flags));
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    path.to_str().unwrap().to_owned()
}

fn sealed(host: &Host, dir: &Path, file: &str, keys: &str) -> Started {
    let path = dir.join(file);
    let text = format!(
        "name = \"coil\"\ninterface = [\"eth0\"]\ndisplay = \"0/s\"\n{keys}\n\
         [[source]]\nkind = \"counter\"\nname = \"n\"\nrate = \"1k/s\"\n"
    );
    std::fs::write(&path, text).unwrap();
    start(&host.ns, &["station", "--json", "-c", path.to_str().unwrap()])
}

#[test]
fn forgers_of_a_sealed_station_are_refused_and_counted() {
    let Some([one, two, other]) = network(["station", "forger", "server"]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (group, own) = (key(&at("group.key"), &["--group"]), key(&at("own.key"), &[]));
    let (strange, foreign) = (key(&at("strange.key"), &["--group"]), key(&at("foreign.key"), &[]));
    let server = at("server.toml");
    let public = at("own.pub");
    let text = format!(
        "key = \"{group}\"\nsenders = [\"{}\"]\n[[listen]]\naddress = \"{GROUP}\"\ninterface = \"eth0\"\n",
        public.display()
    );
    std::fs::write(&server, text).unwrap();
    let mut server = start(&other.ns, &["serve", "--json", "-c", server.to_str().unwrap()]);
    let tap = two.run(|| {
        let socket = UdpSocket::bind(GROUP).unwrap();
        socket.join_multicast_v4(&"239.192.77.1".parse().unwrap(), &two.v4).unwrap();
        SockRef::from(&socket).set_multicast_if_v4(&two.v4).unwrap();
        SockRef::from(&socket).set_multicast_loop_v4(false).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    });
    let keys = format!("encrypt = \"{group}\"\nsign = \"{own}\"");
    let mut station = sealed(&one, dir.path(), "true.toml", &keys);
    // Who sends as it does, with no key or the group's alone (both are unsigned), with the wrong one of each.
    let forgers = [
        String::new(),
        format!("encrypt = \"{group}\""),
        format!("encrypt = \"{strange}\"\nsign = \"{own}\""),
        format!("encrypt = \"{group}\"\nsign = \"{foreign}\""),
    ];
    let forgers: Vec<Started> = (0..)
        .zip(&forgers)
        .map(|(number, keys)| sealed(&two, dir.path(), &format!("forger-{number}.toml"), keys))
        .collect();
    // What the true one has sent comes again, as it is and with a bit changed.
    let (mut again, mut changed) = (0_u64, 0_u64);
    while changed < 200 {
        let mut bytes = [0; 2000];
        let (length, from) = tap.recv_from(&mut bytes).unwrap();
        if from.ip() != one.v4 || bytes[2] != 0x10 {
            continue;
        }
        tap.send_to(&bytes[..length], GROUP).unwrap();
        again += 1;
        let place = 24 + changed as usize % (length - 24);
        bytes[place] ^= 1 << (changed % 8);
        tap.send_to(&bytes[..length], GROUP).unwrap();
        changed += 1;
    }
    let refused = |ledger: &Value, reason: &str| ledger["received"]["refused"][reason].as_u64().unwrap();
    server.await_ledger(|ledger| ["unsigned", "changed", "forged"].iter().all(|reason| refused(ledger, reason) > 0));
    drop(forgers);
    station.await_ledger(has_sent(500));
    let sent = sent(&station.stop());
    server.await_ledger(|ledger| has_ended(ledger, "coil"));
    let ledger = server.stop();
    assert_eq!(received(&ledger), (sent, 0), "{ledger:#}");
    assert_eq!((ledger["streams"].as_array().unwrap().len(), &ledger["channels"]), (1, &1.into()), "{ledger:#}");
    assert_eq!(ledger["received"]["copies"], again, "{ledger:#}");
    assert!(refused(&ledger, "changed") + refused(&ledger, "forged") >= changed, "{ledger:#}");
}
