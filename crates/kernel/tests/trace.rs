//! What is traced of UDP datagrams, each in a namespace of its own, counted against what was done to them.
#![allow(clippy::unwrap_used)]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::linux::fs::MetadataExt;

use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_kernel::trace::{Detail, Filter, Trace, Tracer};

/// A namespace in which only loopback is up.
struct Lonely {
    ns: NetNs,
    inode: u32,
}

impl Lonely {
    fn new() -> Lonely {
        let ns = NetNs::create().unwrap();
        let mut netlink = Netlink::open(&ns).unwrap();
        let lo = netlink.link("lo").unwrap().index;
        netlink.set_up(lo).unwrap();
        let inode = ns.run(|| std::fs::metadata("/proc/thread-self/ns/net").unwrap().st_ino() as u32).unwrap();
        Lonely { ns, inode }
    }

    fn socket(&self) -> UdpSocket {
        self.ns.run(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).unwrap()
    }

    fn tracer(&self, detail: Detail, ports: &[u16]) -> Tracer {
        let tracer = Tracer::start(detail, &self.filter(ports)).unwrap();
        assert_eq!(tracer.refused(), &[] as &[String]);
        tracer
    }

    fn filter(&self, ports: &[u16]) -> Filter {
        Filter { ports: ports.to_vec(), namespaces: vec![self.inode] }
    }
}

fn port(address: std::io::Result<SocketAddr>) -> u16 {
    address.unwrap().port()
}

#[test]
fn a_full_receive_buffer() {
    let host = Lonely::new();
    let (sender, receiver) = (host.socket(), host.socket());
    let to = port(receiver.local_addr());
    let mut tracer = host.tracer(Detail::Everything, &[to]);
    for _ in 0..1000 {
        sender.send_to(&[7; 100], receiver.local_addr().unwrap()).unwrap();
    }
    let trace: Trace = tracer.read().unwrap();
    println!("{trace:#?}");
}
#[test]
fn timing() {
    use std::time::Instant;
    let t = Instant::now();
    let f = weir_kernel::trace::features().unwrap();
    println!("features {:?}", t.elapsed());
    for f in f {
        println!("{f:?}");
    }
    let t = Instant::now();
    let mut tr = Tracer::start(Detail::Drops, &Filter::default()).unwrap();
    println!("start {:?}", t.elapsed());
    let t = Instant::now();
    tr.read().unwrap();
    println!("read {:?}", t.elapsed());
    let t = Instant::now();
    let tr2 = Tracer::start(Detail::Everything, &Filter::default()).unwrap();
    println!("start everything {:?}", t.elapsed());
    let t = Instant::now();
    drop(tr);
    println!("drop {:?}", t.elapsed());
    let t = Instant::now();
    drop(tr2);
    println!("drop {:?}", t.elapsed());
}
