//! Hosts joined by a bare veth pair, by an emulated link, or by two with a switch between them.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use weir_emulator::datapath::{Emulator, EmulatorSettings, LinkId, LinkPorts, Port};
use weir_emulator::model::{Direction, Impairments, Key, Way};
use weir_kernel::links::{BridgeSettings, MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;
use weir_kernel::offloads::{Offload, Offloads};

/// A namespace with one interface, `eth0`.
pub(crate) struct Host {
    pub(crate) ns: NetNs,
    pub(crate) address: Ipv4Addr,
    mac: MacAddress,
}

impl Host {
    /// Host 1 or 2 of the network `cell`.
    fn new(cell: u8, number: u8) -> Result<Self> {
        let mac = MacAddress::local(u32::from(cell) << 8 | u32::from(number));
        Ok(Self { ns: NetNs::create()?, address: Ipv4Addr::new(10, 77, cell, number), mac })
    }

    fn end<'a>(&'a self) -> VethEnd<'a> {
        VethEnd { ns: &self.ns, name: "eth0", mac: self.mac, mtu: 1500, queue_length: 1000 }
    }

    /// To be called once its interface is there.
    fn bring_up(&self, other: &Host, offloads: bool) -> Result<()> {
        let mut netlink = Netlink::open(&self.ns)?;
        let index = netlink.link("eth0")?.index;
        netlink.set_loopback_up()?;
        netlink.set_no_link_local(index)?;
        if !offloads {
            plain(&self.ns)?;
        }
        netlink.set_up(index)?;
        netlink.add_address(index, format!("{}/24", self.address).parse()?)?;
        netlink.add_neighbour(index, other.address.into(), other.mac)?;
        Ok(())
    }
}

/// Switches off whatever leaves work to the interface.
fn plain(ns: &NetNs) -> Result<()> {
    let mut offloads = Offloads::open(ns)?;
    for offload in
        [Offload::TcpSegmentation, Offload::UdpSegmentation, Offload::GenericSegmentation, Offload::SendChecksum]
    {
        offloads.set("eth0", offload, false)?;
    }
    Ok(())
}

/// Two hosts, and what holds the way between them open.
pub(crate) struct Pair {
    pub(crate) a: Host,
    pub(crate) b: Host,
    pub(crate) links: Vec<LinkId>,
}

/// Two hosts joined directly.
pub(crate) fn direct(offloads: bool) -> Result<Pair> {
    let (a, b) = (Host::new(0, 1)?, Host::new(0, 2)?);
    Netlink::open(&a.ns)?.add_veth(&a.end(), &b.end())?;
    a.bring_up(&b, offloads)?;
    b.bring_up(&a, offloads)?;
    Ok(Pair { a, b, links: Vec::new() })
}

/// Where emulator threads have their ports.
pub(crate) struct Middle {
    ns: NetNs,
    switches: NetNs,
}

impl Middle {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { ns: NetNs::create()?, switches: NetNs::create()? })
    }

    /// Two hosts joined by one link, or by two with a switch between them.
    pub(crate) fn pair(
        &self,
        cell: u8,
        links: u8,
        emulator: &Emulator,
        settings: &EmulatorSettings,
        impairments: &Impairments,
    ) -> Result<Pair> {
        let (a, b) = (Host::new(cell, 1)?, Host::new(cell, 2)?);
        let mut netlink = Netlink::open(&self.ns)?;
        let port = |number: u8| format!("p{cell}-{number}");
        let join = |netlink: &mut Netlink, number: u8, end: &VethEnd<'_>| -> Result<Port> {
            let name = port(number);
            let mac = MacAddress::local(1 << 24 | u32::from(cell) << 8 | u32::from(number));
            let ours = VethEnd { ns: &self.ns, name: &name, mac, mtu: 1500, queue_length: 1000 };
            netlink.add_veth(&ours, end)?;
            let index = netlink.link(&name)?.index;
            netlink.set_no_link_local(index)?;
            netlink.set_up(index)?;
            Ok(self.ns.run(|| Port::open(index, settings))??)
        };
        let mut ports = vec![join(&mut netlink, 1, &a.end())?];
        if links == 2 {
            ports.extend(self.switch(cell, &mut netlink, join)?);
        }
        ports.push(join(&mut netlink, 4, &b.end())?);
        a.bring_up(&b, true)?;
        b.bring_up(&a, true)?;
        let mut attached = Vec::new();
        let mut ports = ports.into_iter();
        while let (Some(a), Some(b)) = (ports.next(), ports.next()) {
            let link = u32::from(cell) * 2 + attached.len() as u32;
            let key = |direction| Key { seed: 1, link, direction };
            attached.push(emulator.attach(LinkPorts {
                name: format!("{cell}"),
                a,
                b,
                forward: Direction::new(&impairments.clone().into(), key(Way::Forward)),
                backward: Direction::new(&impairments.clone().into(), key(Way::Backward)),
            })?);
        }
        Ok(Pair { a, b, links: attached })
    }

    fn switch(
        &self,
        cell: u8,
        netlink: &mut Netlink,
        join: impl Fn(&mut Netlink, u8, &VethEnd<'_>) -> Result<Port>,
    ) -> Result<[Port; 2]> {
        let mut switches = Netlink::open(&self.switches)?;
        let mac = |number: u32| MacAddress::local(2 << 24 | u32::from(cell) << 8 | number);
        let ageing = Duration::from_secs(300);
        let bridge = BridgeSettings { mac: mac(0), multicast_snooping: false, ageing };
        let bridge = switches.add_bridge(&format!("br{cell}"), &bridge).context("add a switch")?;
        let mut port = |number: u8| -> Result<Port> {
            let name = format!("s{cell}-{number}");
            let mac = mac(number.into());
            let end = VethEnd { ns: &self.switches, name: &name, mac, mtu: 1500, queue_length: 1000 };
            let port = join(netlink, number, &end)?;
            let index = switches.link(&name)?.index;
            switches.set_no_link_local(index)?;
            switches.set_bridge(index, bridge)?;
            switches.set_up(index)?;
            Ok(port)
        };
        let ports = [port(2)?, port(3)?];
        switches.set_no_link_local(bridge)?;
        switches.set_up(bridge)?;
        Ok(ports)
    }
}
