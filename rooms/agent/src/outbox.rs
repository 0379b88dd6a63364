//! Samples on their way into datagrams.

use std::net::IpAddr;
use std::time::Instant;

use weir_wire::sflow::DataFormat;
use weir_wire::sflow::encode::{self, Header, Samples};

/// Samples that leave with the next datagrams.
#[derive(Debug)]
pub(crate) struct Outbox {
    started: Instant,
    /// Datagrams so far.
    sequence: u32,
    /// Encoded samples, one behind the other.
    samples: Vec<u8>,
    /// Whether one of them is to leave now.
    urgent: bool,
    /// What is being encoded.
    scratch: Vec<u8>,
}

impl Outbox {
    /// Empty.
    pub(crate) fn new(started: Instant) -> Self {
        Self { started, sequence: 0, samples: Vec::new(), urgent: false, scratch: Vec::new() }
    }

    /// Takes the one sample that `write` writes. One that is not urgent waits for company: a datagram's worth of others, or
    /// one that is.
    pub(crate) fn add(&mut self, urgent: bool, write: impl FnOnce(&mut Samples<'_>)) {
        self.scratch.clear();
        let mut datagram = encode::datagram(&mut self.scratch, &HEADER);
        let header = datagram.size();
        write(&mut datagram);
        self.samples.extend_from_slice(&self.scratch[header..]);
        self.urgent |= urgent;
    }

    /// Sends what is there: each datagram is handed to `send`, and is no longer than [`MOST_BYTES`], unless one sample is.
    pub(crate) fn flush(&mut self, agent: IpAddr, now: Instant, mut send: impl FnMut(&[u8])) {
        if !self.urgent && self.samples.len() < MOST_BYTES {
            return;
        }
        let uptime = now.duration_since(self.started).as_millis() as u32;
        let mut left = self.samples.as_slice();
        while !left.is_empty() {
            self.sequence = self.sequence.wrapping_add(1);
            self.scratch.clear();
            let header = Header { agent, sub_agent: 0, sequence: self.sequence, uptime };
            let mut datagram = encode::datagram(&mut self.scratch, &header);
            let mut count = 0;
            while let Some((format, body)) = first(left)
                && (count == 0 || datagram.size() + SAMPLE_HEADER + body.len() <= MOST_BYTES)
            {
                datagram.raw(format, body);
                left = &left[SAMPLE_HEADER + body.len()..];
                count += 1;
            }
            send(&self.scratch);
        }
        self.samples.clear();
        self.urgent = false;
    }
}

/// The first of encoded samples: its format, its length, its body.
fn first(samples: &[u8]) -> Option<(DataFormat, &[u8])> {
    let (format, rest) = samples.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let body = rest.get(..u32::from_be_bytes(*length) as usize)?;
    Some((u32::from_be_bytes(*format).into(), body))
}

/// Of a datagram that is never sent.
const HEADER: Header =
    Header { agent: IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), sub_agent: 0, sequence: 0, uptime: 0 };

/// Format and length.
const SAMPLE_HEADER: usize = 8;

/// Payload of a datagram that no path fragments (specification, section 4).
pub(crate) const MOST_BYTES: usize = 1400;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use weir_wire::sflow::{Datagram, Sample};

    use super::*;

    proptest! {
        /// Whatever is put in comes out once, in order, in datagrams of bounded size and increasing number.
        #[test]
        fn what_goes_in_comes_out(sizes in proptest::collection::vec(0_usize..300, 0..60)) {
            let mut outbox = Outbox::new(Instant::now());
            for (number, size) in sizes.iter().enumerate() {
                let body = [&(number as u32).to_be_bytes()[..], &vec![7; size / 4 * 4]].concat();
                outbox.add(true, |samples| samples.raw(DataFormat { enterprise: 9, format: 1 }, &body));
            }
            let (mut numbers, mut sequence) = (Vec::new(), 0);
            let agent = "192.0.2.1".parse().unwrap();
            outbox.flush(agent, Instant::now() + Duration::from_secs(3), |bytes| {
                let datagram = Datagram::parse(bytes).unwrap();
                sequence += 1;
                assert!(bytes.len() <= MOST_BYTES && datagram.sequence == sequence && datagram.uptime >= 3000);
                for sample in datagram.samples() {
                    let Sample::Unknown { body, .. } = sample.unwrap() else { panic!("another sample") };
                    numbers.push(u32::from_be_bytes(*body.first_chunk().unwrap()) as usize);
                }
            });
            prop_assert_eq!(numbers, (0..sizes.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_not_urgent_waits_for_company() {
        let mut outbox = Outbox::new(Instant::now());
        let body = |samples: &mut Samples<'_>| samples.raw(DataFormat { enterprise: 9, format: 1 }, &[0; 100]);
        let sent = |outbox: &mut Outbox| {
            let mut sent = 0;
            outbox.flush("192.0.2.1".parse().unwrap(), Instant::now(), |_| sent += 1);
            sent
        };
        outbox.add(false, body);
        assert_eq!(sent(&mut outbox), 0);
        outbox.add(true, body);
        assert_eq!((sent(&mut outbox), sent(&mut outbox)), (1, 0));
        (0..13).for_each(|_| outbox.add(false, body));
        assert_eq!(sent(&mut outbox), 2);
    }
}
