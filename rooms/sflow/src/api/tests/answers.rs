//! What is put and what is told of it.

use serde_json::json;

use crate::api::fixture::{HOSTILE, Small, ask, get, serve, serve_with};
use weir_service::http::Verb;

use crate::api::Settings;
use crate::api::routes::ROUTES;
use crate::escape::is_obeyed;

#[test]
fn a_wrong_filter_is_pointed_at() {
    let (small, serving) = serve();
    let body = r#"{"keys":"ipsource","value":"bytes","filter":"ipsource~größe&vlan<7"}"#;
    let reply = ask(&serving, "PUT", "/flow/x/json", "", body).reply();
    let expected = json!({
        "error": "no such comparison: write range:KEY:LEAST:MOST=true",
        "key": "filter",
        "text": "ipsource~größe&vlan<7",
        // In bytes, of which ö and ß have two; the caret is below the sign.
        "offset": 21,
        "caret": "                   ^",
    });
    assert_eq!((reply.status, reply.json()), (400, expected));
    assert!(!small.flows().contains(&"x".to_owned()));
}

#[test]
fn what_is_put_is_there_until_it_is_deleted() {
    let (_, serving) = serve();
    for route in ROUTES.iter().filter(|route| route.verb == Verb::Put) {
        let target = route.example.replace("/tcp/", "/new/").replace("/busy/", "/new/").replace("/sites/", "/new/");
        let put = || ask(&serving, "PUT", &target, "", route.body.unwrap()).reply().status;
        // Again is the same.
        assert_eq!([put(), put()], [204, 204], "{target}");
        let body: serde_json::Value = serde_json::from_str(route.body.unwrap()).unwrap();
        let there = get(&serving, &target).json();
        for (key, value) in body.as_object().unwrap() {
            assert!(
                there[key] == *value || there[key].as_f64() == value.as_f64() && value.is_number(),
                "{key}: {there}"
            );
        }
        let delete = || ask(&serving, "DELETE", &target, "", "").reply().status;
        assert_eq!([delete(), delete(), get(&serving, &target).status], [204, 404, 404], "{target}");
    }
}

/// What is taken otherwise than it was asked for, or names what is not there yet, is said at once and as long as it lasts.
#[test]
fn what_is_not_quite_as_asked_is_said() {
    let (_, serving) = serve();
    let put = |target: &str, body: &str| ask(&serving, "PUT", target, "", body).reply();
    let reply = put("/flow/few/json", r#"{"keys":"ipsource","n":1}"#);
    assert_eq!((reply.status, reply.json()), (200, json!({"notes": ["n: 1 is not 5 to 1000: 5 is taken"]})));

    let missing = "metric: there is no metric or flow definition `later`";
    let reply = put("/threshold/x/json", r#"{"metric":"later","value":1}"#);
    assert!(reply.status == 200 && reply.json()["notes"][0].as_str().unwrap().starts_with(missing), "{reply:?}");
    let told = || [get(&serving, "/threshold/x/json").json(), get(&serving, "/threshold/json").json()["x"].clone()];
    let [one, listed] = told();
    assert!(one == listed && one["notes"][0].as_str().unwrap().starts_with(missing), "{one}");
    // Whoever puts back what was read need not take it out.
    assert_eq!(put("/threshold/x/json", &one.to_string()).status, 200);
    assert_eq!(put("/flow/later/json", r#"{"keys":"ipsource","notes":["of before"]}"#).status, 204);
    assert!(told().iter().all(|told| told.get("notes").is_none() && told["metric"] == "later"));
    assert_eq!(put("/threshold/x/json", &one.to_string()).status, 204);
}

#[test]
fn metrics_leave_out_what_is_stale_and_what_conditions_exclude() {
    let (_, serving) = serve();
    let metric = |selector: &str| get(&serving, &format!("/metric/ALL/{selector}/json{}", "")).json()[0].clone();
    // 10.0.0.2 has 77, too old.
    let max = metric("ifinoctets");
    assert_eq!(
        (&max["metricValue"], &max["dataSource"], &max["agent"]),
        (&json!(125_000_000.5), &json!("4"), &json!("10.0.0.1"))
    );
    assert_eq!((&max["metricN"], &max["metricStale"], &max["interval"]), (&json!(2), &json!(1), &json!(20_000)));
    assert_eq!(
        (&max["lastUpdate"], &max["lastUpdateMin"], &max["lastUpdateMax"]),
        (&json!(2037), &json!(2034), &json!(2037))
    );
    let sum = metric("sum:ifinoctets");
    assert_eq!((&sum["metricValue"], sum.get("agent")), (&json!(125_001_000.5), None));
    let stale = get(&serving, "/metric/10.0.0.2/ifinoctets/json").json()[0].clone();
    assert_eq!((stale.get("metricValue"), &stale["metricStale"]), (None, &json!(1)));
    assert_eq!(metric("any:os_name")["metricValue"], "linux");
    assert_eq!(metric("1.ifinoctets")["metricValue"], 1000.0);
    // As scripts for sFlow-RT ask after an event.
    let flow = get(&serving, "/metric/10.0.0.1/4.tcp/json").json()[0].clone();
    assert_eq!((&flow["metricName"], &flow["topKeys"][0]["key"]), (&json!("4.tcp"), &json!("10.9.0.1,10.0.0.5")));
    assert_eq!((&flow["metricValue"], &flow["low"], &flow["high"]), (&json!(9e6), &json!(6.75e6), &json!(11.25e6)));

    let dump = |query: &str| {
        let rows = get(&serving, &format!("/dump/ALL/ifinoctets;load_one/json{query}")).json();
        let names = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|row| format!("{} {}", row["agent"].as_str().unwrap(), row["dataSource"].as_str().unwrap()));
        names.collect::<Vec<_>>()
    };
    assert_eq!(dump(""), ["10.0.0.1 1", "10.0.0.1 4", "10.0.0.1 2.1", "2001:db8::3 2.1"]);
    // A source's own metric counts; of the agent's other sources, where it has none.
    assert_eq!(dump("?ifspeed=1000000000"), ["10.0.0.1 1", "10.0.0.1 2.1"]);
    assert_eq!(dump("?os_name=windows&os_name=lin*"), ["2001:db8::3 2.1"]);
    assert!(dump("?os_name=linux&ifspeed=1e9").is_empty());

    let (_, hostile) = serve_with(Small { uplink: HOSTILE, ..Small::default() }, Settings::default());
    let names = get(&hostile, "/dump/leaf1/4.ifname/json");
    assert_eq!(names.json()[0]["metricValue"], HOSTILE);
    // Nor is any of it raw.
    assert!(!names.body.contains(|c| is_obeyed(c) && c != '\n'), "{names:?}");

    let rows = get(&serving, "/table/ALL/load_one,sort:ifinoctets:-1/json").json();
    assert_eq!(rows.as_array().unwrap().len(), 1);
    assert_eq!((&rows[0][0]["metricValue"], &rows[0][1]["metricValue"]), (&json!(0.5), &json!(125_000_000.5)));
}
