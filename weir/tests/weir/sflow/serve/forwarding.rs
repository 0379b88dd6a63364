//! What is received goes on, whole, to other collectors.

use std::net::UdpSocket;

use weir_testbed::PATIENCE;

use super::agent::Agent;
use super::{File, Serve};

/// Each byte of it, what cannot be read included; a destination that nobody listens at costs nothing but its own copies.
#[test]
fn other_collectors_get_every_byte() {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    sink.set_read_timeout(Some(PATIENCE)).unwrap();
    // Takes only what it sends itself.
    let dead = UdpSocket::bind("127.0.0.1:0").unwrap();
    dead.connect(dead.local_addr().unwrap()).unwrap();
    let (to, nowhere) = (sink.local_addr().unwrap(), dead.local_addr().unwrap());
    let file = File::new(&format!(
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"other\"\nto = \"{to}\"\n\
         [[destination]]\nname = \"dead\"\nto = \"{nowhere}\"\n"
    ));
    let mut serve = Serve::start(&["-c", &file.path(), "--workers", "2"]);
    let (socket, listener) = (UdpSocket::bind("127.0.0.1:0").unwrap(), serve.address());
    let mut agent = Agent::new([10, 1, 2, 3]);
    let mut buffer = [0; 2000];
    for number in 0..100 {
        let payload = if number % 10 == 7 { b"no sFlow".to_vec() } else { agent.datagram() };
        socket.send_to(&payload, listener).unwrap();
        let length = sink.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], payload);
    }
    let ledger = serve.await_received(100);
    assert_eq!(
        (ledger["analysed"].clone(), ledger["rejected"]["version"].clone()),
        (90.into(), 10.into()),
        "{ledger:#}"
    );
    let final_ledger = serve.stop();
    let destinations = final_ledger["destinations"].as_array().unwrap();
    let of = |name: &str| destinations.iter().find(|to| to["name"] == name).unwrap();
    assert_eq!((of("other")["sent"]["datagrams"].clone(), of("other")["unexplained"].clone()), (100.into(), 0.into()));
    assert_eq!((of("dead")["copies"]["datagrams"].clone(), of("dead")["unexplained"].clone()), (100.into(), 0.into()));
}
