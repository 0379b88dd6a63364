use proptest::prelude::*;
use weir_emulator::model;

use super::*;
use crate::sweep::Sweep;

fn of_text(text: &str) -> Result<Topology> {
    let sweep = Sweep::new("test.toml", text, &[])?;
    let last = sweep.cells.last().context("there are cells")?;
    Topology::new(&last.scenario)
}

fn telemetry() -> String {
    Scenario::find("telemetry").unwrap().1
}

/// What is wrong with a scenario when pieces of its text are replaced.
#[track_caller]
fn error(text: &str, replaced: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (from, to) in replaced {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    format!("{:#}", of_text(&text).unwrap_err())
}

/// Three routers, each joined to the two others; a client at r1, a server at r3, both families; a link for control.
const TRIANGLE: &str = r#"
name = "triangle"
title = "Three routers"
[hosts.client]
addresses = { access = ["10.0.1.2/24", "fd00:1::2/64"], control = ["10.0.9.2/24"] }
[hosts.server]
addresses = ["10.0.3.2/24", "fd00:3::2/64"]
[routers.r1]
addresses = { access = ["10.0.1.1/24", "fd00:1::1/64"], r1-r2 = ["10.1.2.1/24", "fd00:12::1/64"], r1-r3 = ["10.1.3.1/24", "fd00:13::1/64"], control = ["10.0.9.1/24"] }
[routers.r2]
addresses = { r1-r2 = ["10.1.2.2/24", "fd00:12::2/64"], r2-r3 = ["10.2.3.2/24", "fd00:23::2/64"] }
[routers.r3]
addresses = { r1-r3 = ["10.1.3.3/24"], r2-r3 = ["10.2.3.3/24", "fd00:23::3/64"], last = ["10.0.3.1/24", "fd00:3::1/64"] }
[switches.s1]
[links]
access = { ends = ["client", "r1"], forward = { loss = "10%", delay = "10ms" } }
control = { ends = ["r1", "client"] }
last = { ends = ["s1", "r3"], backward = { loss = "20%" }, rate = "1gbit" }
r1-r2 = { ends = ["r1", "r2"], delay = "2ms" }
r1-r3 = { ends = ["r3", "r1"], delay = "30ms", backward = { rate = "50mbit" } }
r2-r3 = { ends = ["r2", "r3"], delay = "5ms" }
server = { ends = ["server", "s1"] }
[traffic]
from = "client"
to = "server"
port = 5201
transport = "tcp"
payload = "128kB"
"#;

fn routes<'a>(topology: &'a Topology, node: &str) -> Vec<(String, String, &'a str)> {
    let routes = topology.nodes[topology.node(node).unwrap()].routes.iter();
    let words = |route: &Route| {
        (route.destination.to_string(), route.gateway.to_string(), topology.links[route.link].name.as_str())
    };
    routes.map(words).collect()
}

fn names(topology: &Topology, hops: &[(usize, Way)]) -> Vec<String> {
    let name = |&(link, way): &(usize, Way)| {
        format!("{} {}", topology.links[link].name, if way == Way::Forward { "->" } else { "<-" })
    };
    hops.iter().map(name).collect()
}

#[test]
fn hops_multiply_to_the_loss_of_the_path() {
    let topology = of_text(&telemetry()).unwrap();
    let path = &topology.traffic.paths[0];
    assert!((topology.loss(&path.forward) - 0.2).abs() < 1e-12);
    assert!((topology.loss(&path.backward) - 0.2).abs() < 1e-12);
    let model::Loss::Bernoulli(each) = topology.links[0].impairments[0].first.loss else { panic!("{topology:?}") };
    assert!((each - (1.0 - 0.8_f64.sqrt())).abs() < 1e-12);
    assert_eq!(topology.links[0].impairments[0], topology.links[1].impairments[1]);
    // 1 - 0.8 * 0.8, both of two hops and rounded.
    let line = "sender -> receiver: uplink 10.5573 % 0 ms, downlink 10.5573 % 0 ms: 20 % and 0 ms one way; \
                back 20 % and 0 ms; round trip 36 % and 0 ms";
    assert_eq!(topology.describe_paths(), [line]);
}

#[test]
fn a_path_crosses_switches_and_knows_its_ways() {
    let topology = of_text(&telemetry()).unwrap();
    assert_eq!(names(&topology, &topology.traffic.paths[0].forward), ["uplink ->", "downlink ->"]);
    assert_eq!(names(&topology, &topology.traffic.paths[0].backward), ["downlink <-", "uplink <-"]);
    assert_eq!((topology.nodes[0].name.as_str(), &topology.traffic.receivers), ("receiver", &vec![0]));
}

#[test]
fn every_node_has_the_shortest_route_to_every_subnet() {
    let topology = of_text(TRIANGLE).unwrap();
    let route = |destination: &str, gateway: &str, link| (destination.to_owned(), gateway.to_owned(), link);
    // By its ordinary link, and to the router's other addresses. r3 has no IPv6 towards r1.
    let expected: Vec<_> = ["10.0.3.0/24", "10.1.2.0/24", "10.1.3.0/24", "10.2.3.0/24"]
        .map(|subnet| route(subnet, "10.0.1.1", "access"))
        .into_iter()
        .chain(
            ["fd00:3::/64", "fd00:12::/64", "fd00:13::/64", "fd00:23::/64"].map(|v6| route(v6, "fd00:1::1", "access")),
        )
        .collect();
    assert_eq!(routes(&topology, "client"), expected);
    // 10.2.3.0/24 is one router away by r2 and by r3: r2 comes first.
    let expected = [
        route("10.0.3.0/24", "10.1.3.3", "r1-r3"),
        route("10.2.3.0/24", "10.1.2.2", "r1-r2"),
        route("fd00:3::/64", "fd00:12::2", "r1-r2"),
        route("fd00:23::/64", "fd00:12::2", "r1-r2"),
    ];
    assert_eq!(routes(&topology, "r1"), expected);
    assert_eq!(routes(&topology, "server").iter().filter(|(to, ..)| to == "10.0.9.0/24").count(), 1);
    assert!(routes(&topology, "s1").is_empty());
}

#[test]
fn families_may_take_different_ways() {
    let topology = of_text(TRIANGLE).unwrap();
    let forward = names(&topology, &topology.traffic.paths[0].forward);
    assert_eq!(forward, ["access ->", "r1-r3 <-", "last <-", "server <-"]);
    // 10 % of 20 % of the rest, each with its own delay; the slowest link of the way.
    assert!((topology.loss(&topology.traffic.paths[0].forward) - 0.28).abs() < 1e-12);
    assert!((topology.latency_ms(&topology.traffic.paths[0].forward) - 40.0).abs() < 1e-12);
    assert_eq!(topology.rate_mbit(&topology.traffic.paths[0].forward), Some(50.0));
    assert_eq!(topology.rate_mbit(&topology.traffic.paths[0].backward), Some(1000.0));
    let line = "client -> server: access 10 % 10 ms, r1-r3 0 % 30 ms 50 Mbit/s, last 20 % 0 ms 1 Gbit/s, server 0 % 0 ms: \
                28 % and 40 ms one way; back 0 % and 30 ms; round trip 28 % and 70 ms";
    assert_eq!(topology.describe_paths(), [line]);

    let v6 = of_text(&TRIANGLE.replace("port = 5201", "port = 5201\naddress = \"fd00:3::2\"")).unwrap();
    let forward = names(&v6, &v6.traffic.paths[0].forward);
    assert_eq!(forward, ["access ->", "r1-r2 ->", "r2-r3 ->", "last <-", "server <-"]);
    assert_eq!(v6.latency_ms(&v6.traffic.paths[0].forward), 17.0);
}

#[test]
fn the_mean_of_a_variation_is_latency() {
    let varied = "forward = { loss = \"10%\", delay = \"10ms\", variation = { normal = [\"30ms\", \"1ms\"] } }";
    let topology = of_text(&TRIANGLE.replace("forward = { loss = \"10%\", delay = \"10ms\" }", varied)).unwrap();
    assert!((topology.latency_ms(&topology.traffic.paths[0].forward) - 70.0).abs() < 1e-9);
    let told = &topology.describe_paths()[0];
    assert!(
        told.contains("access 10 % 40 ms, ") && told.contains("28 % and 70 ms one way; back 0 % and 30 ms"),
        "{told}"
    );
}

#[test]
fn the_way_back_may_be_another() {
    // r1's address towards r3 is known to r3 by r2 only: answers to it go round.
    let text = TRIANGLE.replace("\"10.1.3.3/24\"", "\"10.1.3.3/32\"");
    let topology = of_text(&text).unwrap();
    assert_eq!(names(&topology, &topology.traffic.paths[0].forward)[1..3], ["r1-r3 <-", "last <-"]);
    assert_eq!(names(&topology, &topology.traffic.paths[0].backward)[1..4], ["last ->", "r2-r3 <-", "r1-r2 <-"]);
    assert!(
        topology.describe_paths()[0].contains("; back by server 0 % 0 ms, last 0 % 0 ms 1 Gbit/s, r2-r3 0 % 5 ms, ")
    );
}

#[test]
fn a_control_link_carries_nothing_else() {
    let topology = of_text(&TRIANGLE.replace("port = 5201", "port = 5201\ncontrol = \"control\"")).unwrap();
    let control = topology.control.as_ref().unwrap();
    let expected = Control {
        link: 1,
        address: "10.0.9.2".parse().unwrap(),
        gateway: "10.0.9.1".parse().unwrap(),
        destination: "10.0.3.2/32".parse().unwrap(),
        port: 5201,
        in_use: false,
    };
    assert_eq!(*control, expected);
    assert!(routes(&topology, "client").iter().all(|(_, _, link)| *link == "access"));
    assert!(routes(&topology, "r1").iter().all(|(_, _, link)| *link != "control"));
    // What answers to it still gets there.
    assert!(routes(&topology, "server").iter().any(|(to, _, _)| to == "10.0.9.0/24"));
}

#[test]
fn the_whole_path_is_spread_both_ways_or_not_at_all() {
    let clean = TRIANGLE.replace("forward = { loss = \"10%\", delay = \"10ms\" }", "mtu = 1500");
    let clean = clean.replace("backward = { loss = \"20%\" }, ", "").replace("delay = \"30ms\", ", "");
    let spread = of_text(&format!("{clean}\n[path]\nloss = \"40%\"\ndelay = \"100ms\"")).unwrap();
    for hops in [&spread.traffic.paths[0].forward, &spread.traffic.paths[0].backward] {
        assert!((spread.loss(hops) - 0.4).abs() < 1e-12);
        assert!((spread.latency_ms(hops) - 100.0).abs() < 1e-9);
    }
    assert_eq!(spread.links[spread.traffic.paths[0].forward[0].0].impairments[0].first.delay.as_millis(), 25);

    let stripped = of_text(&format!("{TRIANGLE}\n[run]\nimpaired = false")).unwrap();
    assert_eq!(stripped.loss(&stripped.traffic.paths[0].forward), 0.0);
    assert!(stripped.links.iter().flat_map(|link| &link.impairments).all(|way| *way == Plan::default()));
}

#[test]
fn a_step_has_what_it_names_in_place_of_the_paths() {
    let text = r#"
        name = "steps"
        title = "A path whose only link fails"
        [hosts]
        a.addresses = ["10.0.0.1/24"]
        b.addresses = ["10.0.0.2/24"]
        [links.wire]
        ends = ["a", "b"]
        forward.steps = [{ at = "5s", loss = "100%" }, { at = "8s" }, { at = "9s", loss = "0%", delay = "1ms" }]
        [path]
        loss = "10%"
        delay = "4ms"
        [traffic]
        from = "a"
        to = "b"
        port = 5000
        transport = "udp"
        payload = "100B"
    "#;
    let topology = of_text(text).unwrap();
    let [forward, backward] = &topology.links[0].impairments;
    let phases = |plan: &Plan| -> Vec<(f64, u128)> {
        let steps = plan.steps.iter().map(|step| &step.impairments);
        let all = std::iter::once(&plan.first).chain(steps);
        all.map(|phase| ((1e6 * phase.loss.mean()).round() / 1e6, phase.delay.as_millis())).collect()
    };
    assert_eq!(phases(forward), [(0.1, 4), (1.0, 4), (0.1, 4), (0.0, 1)]);
    assert_eq!(phases(backward), [(0.1, 4)]);
}

#[test]
fn a_group_reaches_every_receiver_of_its_segment() {
    let text = TRIANGLE
        .replace("to = \"server\"", "to = [\"server\", \"viewer\"]\naddress = \"239.1.1.1\"")
        .replace("from = \"client\"", "from = \"source\"")
        .replace("[routers.r1]", "[hosts.source]\naddresses = [\"10.0.3.3/24\"]\n[hosts.viewer]\naddresses = [\"10.0.3.4/24\"]\n[routers.r1]")
        .replace("[traffic]", "source = { ends = [\"source\", \"s2\"] }\nswitches = { ends = [\"s2\", \"s1\"], loss = \"10%\" }\nviewer = { ends = [\"s2\", \"viewer\"] }\n[switches.s2]\n[traffic]");
    let topology = of_text(&text).unwrap();
    let forward: Vec<_> = topology.traffic.paths.iter().map(|path| names(&topology, &path.forward)).collect();
    assert_eq!(forward, [vec!["source ->", "switches ->", "server <-"], vec!["source ->", "viewer ->"]]);
    let [s1, switches] = ["s1", "switches"];
    let link = topology.links.iter().position(|link| link.name == switches).unwrap();
    let reachable_through = topology.reachable_through(topology.node(s1).unwrap(), link);
    let names: Vec<_> = reachable_through
        .iter()
        .map(|&(link, end)| topology.nodes[topology.links[link].ends[end]].name.as_str())
        .collect();
    assert_eq!(names, ["source", "viewer"]);

    let beyond = error(&text, &[("from = \"source\"", "from = \"client\"")]);
    assert_eq!(
        beyond,
        "traffic.to: `server` is not on a segment with `client`. Join them by switches: routers do not forward multicast."
    );
}

#[test]
fn an_address_of_a_whole_network_is_no_hosts() {
    let telemetry = &telemetry();
    let with = |address: &str| error(telemetry, &[("10.0.0.2/24", address)]);
    assert!(
        with("10.0.0.0/24").contains("hosts.sender: 10.0.0.0 is the network address of 10.0.0.0/24. Use another one")
    );
    assert!(with("10.0.0.255/24").contains("hosts.sender: 10.0.0.255 is the broadcast address of 10.0.0.0/24"));
}

#[test]
fn mistakes_are_told_in_one_line() {
    let telemetry = &telemetry();
    let on_uplink = |key: &str| error(telemetry, &[(UPLINK, &format!("{UPLINK}\n{key}"))]);
    let before_path = |text: &str| error(telemetry, &[("[path]", &format!("{text}\n[path]"))]);
    let triangle = |from: &str, to: &str| error(TRIANGLE, &[(from, to)]);
    let mistakes = [
        error(telemetry, &[("to = \"receiver\"", "to = \"reciever\"")]),
        error(telemetry, &[("to = \"receiver\"", "to = \"s1\"")]),
        error(telemetry, &[("to = \"receiver\"", "to = \"sender\"")]),
        error(telemetry, &[("[switches.s1]", "[switches.s1]\n[switches.s2]")]),
        before_path("[links.third]\nends = [\"s1\", \"s1\"]"),
        before_path("[links.third]\nends = [\"s1\", \"sender\"]"),
        before_path("[switches.s2]\n[links.third]\nends = [\"s1\", \"s2\"]\n[links.fourth]\nends = [\"s2\", \"s1\"]"),
        error(telemetry, &[("10.0.0.2/24", "10.0.0.1/24")]),
        error(telemetry, &[("10.0.0.2/24", "10.0.1.2/24")]),
        error(telemetry, &[("10.0.0.2/24", "239.0.0.1/24")]),
        error(telemetry, &[("[\"10.0.0.2/24\"]", "[]")]),
        error(telemetry, &[("[\"10.0.0.2/24\"]", "{ downlink = [\"10.0.0.2/24\"] }")]),
        on_uplink("queue = 5"),
        on_uplink("mtu = 100"),
        on_uplink("variation = { order = \"keep\" }"),
        error(telemetry, &[("to = \"receiver\"", "to = []")]),
        error(telemetry, &[("to = \"receiver\"", "to = [\"receiver\", \"receiver\"]")]),
        error(telemetry, &[("to = \"receiver\"", "to = \"receiver\"\naddress = \"10.0.0.9\"")]),
        error(telemetry, &[("to = \"receiver\"", "to = \"receiver\"\naddress = \"ff15::1\"")]),
        triangle("to = \"server\"", "to = \"r3\""),
        error(
            TRIANGLE,
            &[
                ("to = \"server\"", "to = [\"server\", \"more\"]"),
                ("[hosts.server]", "[hosts.more]\naddresses = [\"10.0.3.3/24\"]\n[hosts.server]"),
                ("[traffic]", "more = { ends = [\"more\", \"s1\"] }\n[traffic]"),
            ],
        ),
        triangle("[switches.s1]", "[switches.r1]"),
        triangle("addresses = [\"10.0.3.2/24\", \"fd00:3::2/64\"]", "addresses = { lost = [\"10.0.3.2/24\"] }"),
        triangle(
            "addresses = { access = [\"10.0.1.2/24\", \"fd00:1::2/64\"], control = [\"10.0.9.2/24\"] }",
            "addresses = [\"10.0.1.2/24\"]",
        ),
        triangle("r2-r3 = [\"10.2.3.2/24\", \"fd00:23::2/64\"]", "r2-r4 = [\"10.2.3.2/24\"]"),
        triangle(", r2-r3 = [\"10.2.3.2/24\", \"fd00:23::2/64\"]", ""),
        triangle("[\"10.2.3.2/24\", \"fd00:23::2/64\"]", "[]"),
        triangle("10.0.3.1/24", "10.0.4.1/24"),
        triangle("10.1.2.2/24", "10.1.3.2/24"),
        triangle("[\"r1\", \"r2\"]", "[\"s1\", \"r2\"]"),
        triangle("port = 5201", "port = 5201\ncontrol = \"contrl\""),
        triangle("port = 5201", "port = 5201\ncontrol = \"last\""),
        triangle("port = 5201", "port = 5201\ncontrol = \"control\"\naddress = \"fd00:3::2\""),
        error(
            &format!(
                "{TRIANGLE}\n[load]\nfrom = \"clent\"\nto = \"server\"\nport = 1\ntransport = \"tcp\"\npayload = \"1kB\""
            ),
            &[],
        ),
    ];
    assert!(mistakes.iter().all(|mistake| !mistake.contains('\n')));
    insta::assert_snapshot!(mistakes.join("\n"));
}

const UPLINK: &str = "ends = [\"sender\", \"s1\"]";

/// Routers joined at random by links of a subnet each, a host at the first and the last.
fn random_network(routers: usize, links: &[(usize, usize)]) -> String {
    let mut addresses = vec![String::new(); routers];
    let mut text = String::new();
    for (number, &(a, b)) in links.iter().enumerate() {
        for (end, router) in [a, b].into_iter().enumerate() {
            addresses[router] +=
                &format!("l{number} = [\"10.1.{number}.{}/24\", \"fd01:{number}::{}/64\"], ", end + 1, end + 1);
        }
        text += &format!("[links.l{number}]\nends = [\"r{a}\", \"r{b}\"]\n");
    }
    for (number, router) in [0, routers - 1].into_iter().enumerate() {
        addresses[router] += &format!("h{number} = [\"10.2.{number}.1/24\", \"fd02:{number}::1/64\"], ");
        text += &format!("[links.h{number}]\nends = [\"r{router}\", \"h{number}\"]\n");
        text += &format!("[hosts.h{number}]\naddresses = [\"10.2.{number}.2/24\", \"fd02:{number}::2/64\"]\n");
    }
    for (router, addresses) in addresses.iter().enumerate() {
        text += &format!("[routers.r{router}]\naddresses = {{ {} }}\n", addresses.trim_end_matches(", "));
    }
    let traffic = "[traffic]\nfrom = \"h0\"\nto = \"h1\"\nport = 1\ntransport = \"udp\"\npayload = \"1B\"\n";
    format!("name = \"random\"\ntitle = \"Random\"\n{text}{traffic}")
}

/// Routers between the first and the last, by Floyd and Warshall.
fn fewest_links(routers: usize, links: &[(usize, usize)]) -> Option<usize> {
    const NO_WAY: usize = usize::MAX / 2;
    let mut distance = vec![vec![NO_WAY; routers]; routers];
    (0..routers).for_each(|router| distance[router][router] = 0);
    links.iter().for_each(|&(a, b)| (distance[a][b], distance[b][a]) = (1, 1));
    for via in 0..routers {
        for a in 0..routers {
            for b in 0..routers {
                distance[a][b] = distance[a][b].min(distance[a][via] + distance[via][b]);
            }
        }
    }
    Some(distance[0][routers - 1]).filter(|&links| links < NO_WAY)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn paths_are_as_short_as_can_be(
        (routers, links) in (2usize..8).prop_flat_map(|routers| {
            let link = (0..routers, 1..routers).prop_map(move |(a, step)| (a, (a + step) % routers));
            // Each router has a link, or it is none.
            let ring = (1..routers).map(|b| (b - 1, b)).collect::<Vec<_>>();
            (Just(routers), proptest::collection::vec(link, 1..12), proptest::sample::subsequence(ring, 0..routers))
                .prop_map(|(routers, links, ring)| (routers, [links, ring].concat()))
        }),
        ipv6: bool,
    ) {
        let mut text = random_network(routers, &links);
        if ipv6 {
            text += "address = \"fd02:1::2\"\n";
        }
        prop_assume!((0..routers).all(|router| {
            router == 0 || router == routers - 1 || links.iter().any(|&(a, b)| a == router || b == router)
        }));
        match (of_text(&text), fewest_links(routers, &links)) {
            (Ok(topology), Some(between)) => {
                let path = &topology.traffic.paths[0];
                // A link from the first host, one to the last.
                prop_assert_eq!((path.forward.len(), path.backward.len()), (between + 2, between + 2));
                let mut at = topology.traffic.sender;
                for &(link, way) in &path.forward {
                    let [near, far] = [way as usize, 1 - way as usize].map(|end| topology.links[link].ends[end]);
                    prop_assert_eq!(at, near);
                    at = far;
                }
                prop_assert_eq!(at, topology.traffic.receivers[0]);
            }
            (Err(error), None) => {
                let error = format!("{error:#}");
                prop_assert!(error.starts_with("traffic.to: no route from `h0` to `h1`. Join them by"), "{}", error);
            }
            (result, between) => prop_assert!(false, "{:?} and {:?}", result, between),
        }
    }
}
