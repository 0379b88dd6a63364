//! Networks with routers, entered by `weir lab shell`.

use std::fs;
use std::process::{Command, Stdio};

use weir_testbed::{Ended, program};

use super::family::Family;
use super::{Lab, WEIR};

/// Two routers between a client and a server, a switch before the second; and a link from the client to the first
/// router that only iperf3's control connection takes.
const ROUTED: &str = r#"
name = "NAME"
title = "Two routers"
[hosts.client]
addresses = { access = ["10.0.1.2/24", "fd00:1::2/64"], aside = ["10.0.9.2/24", "fd00:9::2/64"] }
[hosts.server]
addresses = ["10.0.3.2/24", "fd00:3::2/64"]
[routers.r1]
addresses = { access = ["10.0.1.1/24", "fd00:1::1/64"], aside = ["10.0.9.1/24", "fd00:9::1/64"], core = ["10.0.2.1/24", "fd00:2::1/64"] }
[routers.r2]
addresses = { exit = ["10.0.3.1/24", "fd00:3::1/64"], inner = ["10.0.2.2/24", "fd00:2::2/64"] }
[switches.s1]
[links]
access = { ends = ["client", "r1"], delay = "1ms" }
aside = { ends = ["client", "r1"] }
core = { ends = ["r1", "s1"] }
exit = { ends = ["r2", "server"] }
inner = { ends = ["s1", "r2"] }
[traffic]
from = "client"
to = "server"
port = 5201
transport = "tcp"
payload = "64kB"
[tcp]
buffer = "3MB"
"#;

fn routed(lab: &Lab, name: &str, replaced: &[(&str, &str)]) -> String {
    let mut text = ROUTED.replace("NAME", name);
    for (from, to) in replaced {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let path = lab.path(&format!("{name}.toml"));
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const RECEIVE: &str = r#"
import socket, struct
v4 = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
v4.setsockopt(socket.IPPROTO_IP, 12, 1)  # IP_RECVTTL
v6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
v6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
v6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
v4.bind(('', 7)); v6.bind(('', 7))
print('listening', flush=True)
for s in v4, v6:
    data, ancillary, _, peer = s.recvmsg(100, 100)
    s.sendto(b'answer', peer)
    print(data.decode(), peer[0], struct.unpack('i', ancillary[0][2])[0], flush=True)
"#;

const SEND: &str = r#"
import socket, sys
for family, to in (socket.AF_INET, '10.0.3.2'), (socket.AF_INET6, 'fd00:3::2'):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(10)
    s.connect((to, 7))
    s.send(b'hello')
    print(s.recv(100).decode())
"#;

#[test]
fn packets_pass_routers_there_and_back() {
    let Some(_) = program("python3") else { return };
    let (lab, family) = (Lab::new(), Family::new());
    let scenario = routed(&lab, "routed", &[]);
    let on = |host: &str, program: &[&str]| {
        let shell = family.shell(&[&[&scenario[..], host], program].concat());
        assert_eq!((shell.status, &*shell.stderr), (Some(0), ""), "{}", shell.stdout);
        shell.stdout
    };
    let (mut server, _) = family.enter(&[&scenario, "server", "python3", "-c", RECEIVE]);
    assert_eq!(on("client", &["python3", "-c", SEND]), "answer\nanswer\n");
    // 64 less one a router.
    assert_eq!(server.next_line().unwrap(), "hello 10.0.1.2 62");
    assert_eq!(server.next_line().unwrap(), "hello fd00:1::2 62");
    let buffers = on("server", &["sh", "-c", "cd /proc/sys/net/ipv4; cat tcp_rmem tcp_wmem"]);
    let largest: Vec<&str> = buffers.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(largest, ["3000000", "3000000"]);
    assert_eq!(on("r1", &["sh", "-c", "cd /sys/class/net; echo *"]), "eth0 eth1 eth2 lo\n");
    drop(server);
    family.await_end();
}

/// Only iperf3 has a control connection.
const CONTROL: &str = "port = 5201\nmode = \"bulk\"\nengine = \"iperf3\"\ncontrol = \"aside\"";

const ACCEPT: &str = r#"
import socket
s = socket.create_server(('::', 5201), family=socket.AF_INET6, dualstack_ipv6=True)
print('listening', flush=True)
while True:
    print(s.accept()[1][0], flush=True)
"#;

const CONNECT: &str = r#"
import socket, sys
to = sys.argv[1]
for port, patience in (0, 10), (5200, 1):
    s = socket.socket(socket.AF_INET6 if ':' in to else socket.AF_INET)
    s.bind(('', port))
    s.settimeout(patience)
    try:
        s.connect((to, 5201))
        print(port, s.getsockname()[0])
    except TimeoutError:
        print(port, 'nobody answers')
"#;

#[test]
fn a_control_connection_avoids_the_path_that_is_measured() {
    let Some(_) = program("python3") else { return };
    let (lab, family) = (Lab::new(), Family::new());
    for (name, address, own) in [("control-v4", "10.0.3.2", "10.0.9.2"), ("control-v6", "fd00:3::2", "fd00:9::2")] {
        // A path that loses everything, both ways.
        let control = format!("{CONTROL}\naddress = \"{address}\"");
        let dead = [("port = 5201", &*control), ("delay = \"1ms\"", "loss = \"100%\"")];
        let scenario = routed(&lab, name, &dead);
        let (mut server, _) = family.enter(&[&scenario, "server", "python3", "-c", ACCEPT]);
        let connected = family.shell(&[&scenario, "client", "python3", "-c", CONNECT, address]);
        assert_eq!(connected.stdout, format!("0 {own}\n5200 nobody answers\n"));
        assert!(server.next_line().unwrap().ends_with(own));
        drop(server);
        family.await_end();
    }
}

#[test]
fn iperf3_talks_to_its_server_over_the_control_link() {
    let Some(_) = program("iperf3") else { return };
    let (lab, family) = (Lab::new(), Family::new());
    let client = |loss: &str, time: &str| {
        let name = format!("control-iperf3-{loss}");
        let loss = format!("loss = \"{loss}%\"");
        let replaced = [("port = 5201", CONTROL), ("delay = \"1ms\"", &*loss)];
        let scenario = routed(&lab, &name, &replaced);
        let (server, _) = family.enter(&[&scenario, "server", "iperf3", "-s", "-1", "-p", "5201", "--forceflush"]);
        let flags = ["iperf3", "-c", "10.0.3.2", "-p", "5201", "--cport", "5200", "-P", "2", "-n", "4M", "-J"];
        let script = format!(
            "timeout {time} {}; cat /sys/class/net/eth0/statistics/tx_bytes /sys/class/net/eth1/statistics/tx_bytes",
            flags.join(" ")
        );
        let ended = family.shell(&[&scenario, "client", "sh", "-c", &script]);
        drop(server);
        family.await_end();
        let (json, bytes) = ended.stdout.trim_end().rsplit_once('}').unwrap_or(("", &ended.stdout));
        let sent: Vec<u64> = bytes.split_whitespace().map(|number| number.parse().unwrap()).collect();
        (format!("{json}}}"), <[u64; 2]>::try_from(sent).unwrap())
    };
    // 4 MB by the data ports, of which the last may not have left yet; a kilobyte or two by the control connection.
    let (json, [data, control]) = client("0", "20");
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let streams = report["start"]["connected"].as_array().unwrap();
    let ports: Vec<_> = streams.iter().map(|stream| stream["local_port"].as_u64().unwrap()).collect();
    assert_eq!((ports, &streams[0]["local_host"]), (vec![5200, 5201], &"10.0.1.2".into()));
    assert!(data > 1_000_000 && (500..20_000).contains(&control), "{data} and {control}");
    // Where no data comes through, client and server still talk.
    let (_, [_, control]) = client("100", "3");
    assert!((200..20_000).contains(&control), "{control}");
}

#[test]
fn settings_that_cannot_be_changed_are_told_where_they_are_needed() {
    let Some(_) = program("unshare") else { return };
    let (lab, family) = (Lab::new(), Family::new());
    let [switched, routed] = [lab.telemetry("settings-switched", &[]), routed(&lab, "settings-routed", &[])];
    let on = |scenario: &str, host: &str| {
        let weir = WEIR.as_str();
        let script = format!(
            "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && \
             exec {weir} lab shell {scenario} {host} true"
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ended::of(family.mark(&mut command))
    };
    let fine = on(&switched, "sender");
    assert_eq!((fine.status, &*fine.stderr), (Some(0), ""));
    let refused = on(&routed, "client");
    let expected = "weir: host client: tcp.buffer: set net/ipv4/tcp_rmem to ";
    assert!(refused.stderr.starts_with(expected) && refused.stderr.lines().count() == 1, "{refused:?}");
    assert!(refused.stderr.contains("(in a container: make /proc/sys writable"), "{refused:?}");
    assert_eq!(refused.status, Some(1));
    family.await_end();
}
