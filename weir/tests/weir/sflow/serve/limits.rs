//! Tables that are too small: what is known is served on, what is too much is refused by name or gives way, and is counted.

use std::net::{SocketAddr, UdpSocket};

use serde_json::{Value, json};

use super::agent::Agent;
use super::{File, Serve};

fn limited(limits: &str) -> (File, Serve, SocketAddr, UdpSocket) {
    let text = format!("workers = 1\n[limits]\n{limits}\n[[listener]]\naddress = \"127.0.0.1:0\"\n");
    let file = File::new(&text);
    let serve = Serve::start(&["-c", &file.path()]);
    let (to, socket) = (serve.address(), UdpSocket::bind("127.0.0.1:0").unwrap());
    (file, serve, to, socket)
}

/// A table of the ledger: entries, limit, evicted.
#[track_caller]
fn table(ledger: &Value, name: &str) -> [u64; 3] {
    let table = ledger["tables"].as_array().unwrap().iter().find(|table| table["name"] == name);
    let table = table.unwrap_or_else(|| panic!("no table {name} in {ledger:#}"));
    ["entries", "limit", "evicted"].map(|key| table[key].as_u64().unwrap())
}

#[test]
fn agents_and_sources_beyond_the_limit_are_refused_and_counted() {
    let (_file, mut serve, to, socket) = limited("agents = 4\nsources = 3");
    let mut agents = Agent::several(10);
    for _ in 0..8 {
        agents[..4].iter_mut().for_each(|agent| _ = socket.send_to(&agent.datagram(), to).unwrap());
    }
    agents[4..].iter_mut().for_each(|agent| _ = socket.send_to(&agent.datagram(), to).unwrap());
    let ledger = serve.await_received(38);
    assert_eq!((&ledger["analysed"], &ledger["rejected"]["no_room"]), (&json!(32), &json!(6)), "{ledger:#}");
    assert_eq!((table(&ledger, "agents"), table(&ledger, "sources")), ([4, 4, 6], [3, 3, 8]));
    assert_eq!((&ledger["samples"]["flow"], &ledger["samples"]["refused"]), (&json!(24), &json!(8)), "{ledger:#}");
    // Who was known is heard as before.
    socket.send_to(&agents[0].datagram(), to).unwrap();
    assert_eq!(serve.await_received(39)["analysed"], 33);
    assert_eq!(serve.get("/agents/json").as_object().unwrap().len(), 4);
    let figures = serve.get("/analyzer/json");
    assert_eq!((&figures["agents_entries"], &figures["agents_limit"]), (&json!(4), &json!(4)));
    serve.stop();
}

/// Forged newcomers push one another out; a true one, that goes on, gets in and stays.
#[test]
fn newcomers_in_floods_give_way_and_a_true_one_gets_in() {
    let (_file, mut serve, to, socket) = limited("agents = 1200");
    let mut agent = Agent::new([10, 1, 2, 3]);
    for forged in 0..2_600_u32 {
        socket.send_to(&Agent::new((0x0b00_0000 + forged).to_be_bytes()).datagram(), to).unwrap();
        if forged % 100 == 99 {
            socket.send_to(&agent.datagram(), to).unwrap();
            serve.await_received(u64::from(forged) + 1 + u64::from(forged) / 100 + 1);
        }
    }
    let [entries, limit, evicted] = table(&serve.await_received(2_626), "agents");
    assert_eq!((entries, limit, evicted), (1_200, 1_200, 2_601 - 1_200));
    assert!(serve.get("/agents/json").get("10.1.2.3").is_some());
    serve.stop();
}

#[test]
fn flows_beyond_the_limit_give_way_to_larger_ones() {
    let (_file, mut serve, to, socket) = limited("flows = 64");
    serve.put("/flow/pairs/json", &json!({"keys": "ipsource,ipdestination", "value": "frames", "t": 600}));
    let mut agent = Agent::new([10, 1, 2, 3]);
    for host in 0..=255 {
        socket.send_to(&agent.packet([192, 0, 2, 1], [198, 51, 100, host]), to).unwrap();
    }
    let [entries, limit, evicted] = table(&serve.await_received(256), "flows");
    assert!(entries <= 64 && limit == 64 && evicted >= 192, "{entries} of {limit}, {evicted}");
    // One that is new, and large.
    for _ in 0..50 {
        socket.send_to(&agent.packet([192, 0, 2, 1], [203, 0, 113, 1]), to).unwrap();
    }
    serve.await_received(306);
    assert_eq!(serve.get("/activeflows/ALL/pairs/json?maxFlows=1")[0]["key"], "192.0.2.1,203.0.113.1");
    serve.stop();
}

#[test]
fn definitions_beyond_the_limit_are_refused_by_name() {
    let (_file, serve, ..) = limited("definitions = 2");
    let flow = json!({"keys": "ipsource"});
    let refused = |path: &str, body: &Value| {
        let (status, answer) = serve.ask("PUT", path, &body.to_string());
        assert_eq!(status, 400, "{path}: {answer}");
        serde_json::from_str::<Value>(&answer).unwrap()["error"].as_str().unwrap().to_owned()
    };
    (0..2).for_each(|number| serve.put(&format!("/flow/{number}/json"), &flow));
    let said = "there are 2 flow definitions already (limits.definitions): delete one first";
    assert_eq!(refused("/flow/more/json", &flow), said);
    assert_eq!(serve.ask("DELETE", "/flow/0/json", "").0, 204);
    serve.put("/flow/more/json", &flow);

    let (threshold, groups) = (json!({"metric": "ifinoctets", "value": 1}), json!({"lab": ["10.0.0.0/8"]}));
    for number in 0..256 {
        serve.put(&format!("/threshold/{number}/json"), &threshold);
        serve.put(&format!("/group/{number}/json"), &groups);
    }
    assert_eq!(refused("/threshold/more/json", &threshold), "there are 256 thresholds already: delete one first");
    assert_eq!(refused("/group/more/json", &groups), "there are 256 sets of groups already: take one away first");
    for path in ["/threshold/0/json", "/group/0/json"] {
        assert_eq!(serve.ask("DELETE", path, "").0, 204);
    }
    serve.put("/threshold/more/json", &threshold);
    serve.put("/group/more/json", &groups);
    serve.stop();
}
