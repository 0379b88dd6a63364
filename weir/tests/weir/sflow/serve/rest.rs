//! REST of a running analyser, as a client sees it.

use serde_json::{Value, json};
use weir_testbed::http;

use super::{File, Serve};

impl Serve {
    /// Asks; status and body.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let asked = http::ask(self.rest(), method, path, "Content-Type: application/json\r\n", body);
        let answer = asked.answer();
        (answer.status, answer.body)
    }

    /// What there is at a path.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        http::get(self.rest(), path).json()
    }

    #[track_caller]
    pub(crate) fn put(&self, path: &str, body: &Value) {
        let (status, answer) = self.ask("PUT", path, &body.to_string());
        assert_eq!(status, 204, "{path}: {answer}");
    }
}

/// What may come later is taken, and told of as long as it has not come; what cannot be is refused.
#[test]
fn names_that_are_not_there_are_told_of() {
    let serve = Serve::start(&["--listen", "127.0.0.1:0"]);
    let put = |path: &str, body: Value| {
        let (status, answer) = serve.ask("PUT", path, &body.to_string());
        (status, if answer.is_empty() { Value::Null } else { serde_json::from_str(&answer).unwrap() })
    };
    let (status, answer) = put("/flow/sites/json", json!({"keys": "group:ipsource:sites", "n": 2}));
    let missing = "keys: there are no groups `sites` ([group.sites] in the configuration, or PUT /group/sites/json)";
    assert_eq!((status, &answer["notes"]), (200, &json!(["n: 2 is not 5 to 1000: 5 is taken", missing])));
    assert_eq!(serve.get("/flow/sites/json")["notes"], json!([missing]));
    let scrape = "/prometheus/flows/ALL/txt?metric=m&key=group:ipsource:sites&value=bytes";
    let (status, answer) = serve.ask("GET", scrape, "");
    assert!(status == 400 && answer.contains("there are no groups `sites`"), "{status}: {answer}");

    serve.put("/group/sites/json", &json!({"office": ["10.1.0.0/16", "10.2.0.7"]}));
    assert_eq!(serve.get("/group/sites/json")["office"][1], "10.2.0.7/32");
    assert!(serve.get("/flow/sites/json").get("notes").is_none());
    assert_eq!(serve.ask("GET", scrape, "").0, 200);
    let (status, answer) = put("/flow/office/json", json!({"filter": "group:ipsource:sites=ofice"}));
    assert_eq!(
        (status, &answer["notes"][0]),
        (200, &json!("filter: there is no group `ofice` in sites, did you mean `office`?"))
    );

    let (status, answer) = put("/flow/tcp/json", json!({"filter": "vlan=5&ipprotocol=tcp"}));
    assert_eq!((status, &answer["key"], &answer["offset"]), (400, &json!("filter"), &json!(18)), "{answer:#}");
    assert_eq!(answer["error"], "`ipprotocol` is a whole number from 0 to 255, never `tcp`: write 6");
    assert_eq!(serve.ask("GET", "/flow/tcp/json", "").0, 404);
    serve.stop();
}

/// What a refusal says is there to be written.
#[test]
fn who_may_ask_is_said_by_the_configuration() {
    let listener = "[[listener]]\naddress = \"127.0.0.1:0\"\n";
    let file =
        File::new(&format!("hosts = [\"noc.example\"]\nread_only = true\norigins = \"https://a.example\"\n{listener}"));
    let serve = Serve::start(&["-c", &file.path()]);
    let named = |host: &str| {
        let headers = format!("Host: {host}\r\nOrigin: https://a.example\r\n");
        http::ask(serve.rest(), "GET", "/version", &headers, "").answer()
    };
    let answer = named("noc.example:8008");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.head.contains("access-control-allow-origin: https://a.example"), "{answer:?}");
    let answer = named("other.example");
    assert!(answer.status == 421 && answer.body.contains("(hosts)"), "{answer:?}");
    let (status, answer) = serve.ask("PUT", "/flow/a/json", "{\"value\": \"bytes\"}");
    assert!(status == 403 && answer.contains("read_only"), "{status}: {answer}");
    serve.stop();
}
