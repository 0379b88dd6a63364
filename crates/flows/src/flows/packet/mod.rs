//! A sampled or discarded packet with all that is known of it; `fields`: the values of its keys.

mod fields;
mod sighted;

use weir_wire::frame::{Frame, Layer, Protocol, Start};
use weir_wire::sflow::{
    DataSource, DiscardedPacket, ExtendedAcl, ExtendedGateway, ExtendedHwTrap, ExtendedRouter, ExtendedSwitch,
    ExtendedUrl, ExtendedUser, FlowSample, Interface, Record, Records, SampledEthernet, SampledIp, View,
};

pub(super) use fields::{if_name, ip};

use crate::names::{AgentId, Directory};

/// A packet that a sample tells of. Records are read once; headers are walked once; fields are read when a definition asks.
pub struct Packet<'a> {
    /// Who tells of it.
    pub agent: AgentId,
    /// What it was sampled from.
    pub source: DataSource,
    /// Length of the frame in bytes; 0: nobody says.
    pub length: u32,
    /// Whether the agent tells a length that the headers contradict.
    pub contradicted: bool,
    /// Records that were malformed, and are missing.
    pub malformed: u32,
    input: Interface,
    output: Interface,
    /// Why it was dropped; `None`: it was not, as far as the agent knows.
    reason: Option<u32>,
    directory: &'a dyn Directory,
    frame: Frame<'a>,
    known: Known<'a>,
}

/// What records say besides the header.
#[derive(Default)]
struct Known<'a> {
    header: bool,
    ethernet: Option<SampledEthernet>,
    ip: Option<SampledIp>,
    switch: Option<ExtendedSwitch>,
    router: Option<ExtendedRouter>,
    gateway: Option<ExtendedGateway<'a>>,
    user: Option<ExtendedUser<'a>>,
    url: Option<ExtendedUrl<'a>>,
    queue: Option<u32>,
    acl: Option<ExtendedAcl<'a>>,
    function: Option<&'a [u8]>,
    transit_delay: Option<u32>,
    queue_depth: Option<u32>,
    hw_trap: Option<ExtendedHwTrap<'a>>,
    linux_reason: Option<&'a [u8]>,
    operation: Option<Record<'a>>,
}

impl<'a> Packet<'a> {
    /// Of a flow sample.
    #[inline]
    pub fn sampled(agent: AgentId, sample: &FlowSample<'a>, directory: &'a dyn Directory) -> Packet<'a> {
        let mut packet = Packet::new(agent, sample.source, directory);
        (packet.input, packet.output) = (sample.input, sample.output);
        packet.read(sample.records());
        packet
    }

    /// Of a packet that the device dropped.
    pub fn discarded(agent: AgentId, sample: &DiscardedPacket<'a>, directory: &'a dyn Directory) -> Packet<'a> {
        let mut packet = Packet::new(agent, sample.source, directory);
        (packet.input, packet.output, packet.reason) = (sample.input, sample.output, Some(sample.reason));
        packet.read(sample.records());
        packet
    }

    /// A frame of such a length that came in by a data source, with no sample around it.
    pub fn captured(
        agent: AgentId,
        source: DataSource,
        length: u32,
        frame: Frame<'a>,
        directory: &'a dyn Directory,
    ) -> Self {
        let mut packet = Packet::new(agent, source, directory);
        (packet.length, packet.frame, packet.input) = (length, frame, Interface::Index(source.index));
        packet.known.header = true;
        packet
    }

    fn new(agent: AgentId, source: DataSource, directory: &'a dyn Directory) -> Packet<'a> {
        Packet {
            agent,
            source,
            length: 0,
            contradicted: false,
            malformed: 0,
            input: Interface::Unknown,
            output: Interface::Unknown,
            reason: None,
            directory,
            frame: Frame::parse(Start::Ethernet, &[]),
            known: Known::default(),
        }
    }

    fn read(&mut self, records: Records<'a>) {
        for record in records {
            let view = record.and_then(|record| record.view().map(|view| (record, view)));
            let Ok((record, view)) = view else {
                self.malformed += 1;
                continue;
            };
            self.take(record, view);
        }
        // A header may come with its own decoding: it is one packet, and the header knows more.
        if !self.known.header {
            let (ethernet, ip) = (self.known.ethernet, self.known.ip);
            self.length = ethernet.map(|e| e.length).or(ip.map(|ip| ip.length)).unwrap_or(0);
        }
    }

    fn take(&mut self, record: Record<'a>, view: View<'a>) {
        let known = &mut self.known;
        match view {
            // The first header counts.
            View::Header(_) if known.header => {}
            View::Header(header) => {
                known.header = true;
                if let Some(start) = Start::from_header_protocol(header.protocol.0) {
                    self.frame = Frame::parse(start, header.header);
                }
                let (told, real) = (header.frame_length, self.told_by_headers());
                self.contradicted = told == 0 || told > MAX_LENGTH || real.is_some_and(|real| told / 8 > real);
                self.length = if self.contradicted { real.unwrap_or(header.header.len() as u32) } else { told };
            }
            View::Ethernet(ethernet) => known.ethernet = Some(ethernet),
            View::Ip(ip) => known.ip = Some(ip),
            View::Switch(switch) => known.switch = Some(switch),
            View::Router(router) => known.router = Some(router),
            View::Gateway(gateway) => known.gateway = Some(gateway),
            View::User(user) => known.user = Some(user),
            View::Url(url) => known.url = Some(url),
            View::EgressQueue(queue) => known.queue = Some(queue),
            View::Acl(acl) => known.acl = Some(acl),
            View::Function(function) => known.function = Some(function),
            View::TransitDelay(delay) => known.transit_delay = Some(delay),
            View::QueueDepth(depth) => known.queue_depth = Some(depth),
            View::HwTrap(trap) => known.hw_trap = Some(trap),
            View::LinuxReason(reason) => known.linux_reason = Some(reason),
            // Operations of applications.
            View::Other if record.format.enterprise == 0 && (2000..2300).contains(&record.format.format) => {
                known.operation = record.structure.map(|_| record);
            }
            View::Other => {}
        }
    }

    /// The frame's length as its outermost IP header has it; `None`: there is none, or it leaves it to the network card.
    fn told_by_headers(&self) -> Option<u32> {
        let is_ip = |layer: &&Layer| matches!(layer.protocol, Protocol::Ipv4 | Protocol::Ipv6);
        let outermost = self.frame.layers().iter().find(is_ip)?;
        let length = match outermost.protocol {
            Protocol::Ipv4 => u32::from(self.frame.ipv4(0)?.length()),
            _ => match self.frame.ipv6(0)?.payload_length() {
                0 => 0,
                payload => u32::from(payload) + 40,
            },
        };
        (length > 0).then(|| u32::from(outermost.start) + length)
    }

    /// Whether the device dropped it.
    pub fn is_discarded(&self) -> bool {
        self.reason.is_some()
    }

    /// Whether headers were sampled: then no record speaks for them.
    #[inline]
    pub(super) fn has_header(&self) -> bool {
        self.known.header
    }

    /// The headers that were sampled; none, if only their decoding was.
    pub fn frame(&self) -> &Frame<'a> {
        &self.frame
    }
}

/// The longest IPv6 packet without an option for longer ones (RFC 8200): no frame carries more, but for a few tags.
const MAX_LENGTH: u32 = 65_575;
