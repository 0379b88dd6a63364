//! Pages of others, asked from a browser that may reach the analyser.

use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::api::fixture::{Small, ask, ask_at, serve, serve_at, serve_with};
use crate::api::{Settings, server};

#[test]
fn a_local_analyser_is_not_for_strangers_pages() {
    let settings =
        Settings { hosts: vec!["weir.lan".into()], origins: vec!["https://noc.example".into()], ..Settings::default() };
    let (small, serving) = serve_with(Small::default(), settings);
    let status = |method: &str, headers: &str| ask(&serving, method, "/flow/tcp/json", headers, "{}").reply().status;
    for (host, expected) in [
        ("localhost:8008", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8008", 200),
        ("weir.lan:8008", 200),
        ("evil.example", 421),
        ("localhost.evil.example:8008", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ] {
        assert_eq!(status("GET", &format!("Host: {host}\r\n")), expected, "{host:?}");
        assert_eq!(status("PUT", &format!("Host: {host}\r\n")), if expected == 200 { 204 } else { 421 }, "{host:?}");
    }
    let stranger = "Host: localhost\r\nOrigin: https://evil.example\r\n";
    assert_eq!([status("PUT", stranger), status("DELETE", stranger)], [403, 403]);
    assert_eq!(status("PUT", "Host: localhost:8008\r\nOrigin: http://localhost:8008\r\n"), 204);
    assert_eq!(status("PUT", "Host: localhost\r\nOrigin: null\r\n"), 403);
    assert_eq!(status("PUT", "Host: localhost\r\nOrigin: https://noc.example\r\n"), 204);
    assert!(small.flows().contains(&"tcp".to_owned()));
    // No other page may read, either; the paths that there are not do not tell more.
    let asked =
        |origin: &str| ask(&serving, "OPTIONS", "/flow/tcp/json", &format!("Origin: {origin}\r\n"), "").reply().head;
    assert!(!asked("https://evil.example").contains("access-control"));
    let allowed = asked("https://noc.example");
    assert!(
        allowed.starts_with("http/1.1 204 ") && allowed.contains("\r\nallow: get, put, delete, head, options\r\n"),
        "{allowed}"
    );
    assert!(allowed.contains("access-control-allow-origin: https://noc.example"), "{allowed}");
    assert_eq!(ask(&serving, "GET", "/nowhere", "Host: evil.example\r\n", "").reply().status, 421);
    assert!(
        !ask(&serve().1, "GET", "/version", "Origin: https://noc.example\r\n", "")
            .reply()
            .head
            .contains("access-control")
    );

    let (_, serving) = serve_with(Small::default(), Settings { read_only: true, ..Settings::default() });
    let reply = ask(&serving, "PUT", "/flow/tcp/json", "", "{}").reply();
    assert_eq!(
        (reply.status, reply.error()),
        (403, "the API is read only here (read_only in the configuration)".to_owned())
    );
}

/// A server of all addresses is reached by way of loopback as well.
#[test]
fn the_address_asked_decides_not_the_address_bound() {
    let server = server::bind("0.0.0.0:0".parse().unwrap()).unwrap();
    let address = (Ipv4Addr::LOCALHOST, server.local_addr().port()).into();
    let small = Arc::new(Small::default());
    let _serving = serve_at(server, small, Settings::default());
    let asked = |host: &str| ask_at(address, "GET", "/version", &format!("Host: {host}\r\n"), "").reply().status;
    assert_eq!([asked("evil.example"), asked("localhost")], [421, 200]);
}
