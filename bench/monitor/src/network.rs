//! Hosts on one switch, made for a look.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Result;
use ipnet::IpNet;
use weir_kernel::links::{BridgeSettings, MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;

/// Hosts 10.0.0.1, 10.0.0.2 ... with an interface `eth0` each, by which groups go, and the switch between them.
pub(crate) struct Network {
    pub(crate) hosts: Vec<NetNs>,
    _switch: NetNs,
}

impl Network {
    pub(crate) fn new(hosts: usize) -> Result<Self> {
        let switch = NetNs::create()?;
        let mut ports = Netlink::open(&switch)?;
        let settings =
            BridgeSettings { mac: MacAddress::local(1), multicast_snooping: false, ageing: Duration::from_secs(300) };
        let bridge = ports.add_bridge("br0", &settings)?;
        ports.set_up(bridge)?;
        let mut all = Vec::new();
        for number in 1..=u8::try_from(hosts)? {
            let ns = NetNs::create()?;
            let end =
                |ns, name, number| VethEnd { ns, name, mac: MacAddress::local(number), mtu: 1500, queue_length: 1000 };
            let port = format!("p{number}");
            let (own, other) = (u32::from(number) * 2, u32::from(number) * 2 + 1);
            let mut netlink = Netlink::open(&ns)?;
            netlink.add_veth(&end(&ns, "eth0", own), &end(&switch, &port, other))?;
            let port = ports.link(&port)?.index;
            ports.set_bridge(port, bridge)?;
            ports.set_up(port)?;
            let eth0 = netlink.link("eth0")?.index;
            netlink.set_loopback_up()?;
            netlink.set_up(eth0)?;
            netlink.add_address(eth0, IpNet::new(Ipv4Addr::new(10, 0, 0, number).into(), 24)?)?;
            netlink.add_route(IpNet::new(Ipv4Addr::new(224, 0, 0, 0).into(), 4)?, None, eth0)?;
            all.push(ns);
        }
        for ns in &all {
            Netlink::open(ns)?.wait_until_running("eth0")?;
        }
        Ok(Self { hosts: all, _switch: switch })
    }
}
