//! REST of a running analyser, as a client sees it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use super::{File, Serve};
use crate::service::PATIENCE;

impl Serve {
    /// Where REST is served.
    pub(crate) fn rest(&self) -> SocketAddr {
        let address = |line: &String| line.split_once("http://")?.1.split('/').next()?.parse().ok();
        self.said.iter().find_map(address).unwrap_or_else(|| panic!("no REST in {:#?}", self.said))
    }

    /// Asks; status and body.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.rest()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let body =
            if head.to_lowercase().contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
    }

    /// What there is at a path.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }

    #[track_caller]
    pub(crate) fn put(&self, path: &str, body: &Value) {
        let (status, answer) = self.ask("PUT", path, &body.to_string());
        assert_eq!(status, 204, "{path}: {answer}");
    }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        whole.push_str(&rest[..length]);
        body = rest[length..].trim_start_matches("\r\n");
    }
    whole
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
        let mut stream = TcpStream::connect(serve.rest()).unwrap();
        let request =
            format!("GET /version HTTP/1.1\r\nHost: {host}\r\nOrigin: https://a.example\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = named("noc.example:8008");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("access-control-allow-origin: https://a.example"), "{answer}");
    let answer = named("other.example");
    assert!(answer.starts_with("HTTP/1.1 421 ") && answer.contains("(hosts)"), "{answer}");
    let (status, answer) = serve.ask("PUT", "/flow/a/json", "{\"value\": \"bytes\"}");
    assert!(status == 403 && answer.contains("read_only"), "{status}: {answer}");
    serve.stop();
}
