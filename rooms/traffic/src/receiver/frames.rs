//! Splits a stream of bytes into messages, wherever the reads split it.

use weir_wire::probe::{BASE_LEN, EXTENDED_LEN, Foreign, Probe};

/// The state of one stream.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// The received part of the current message's header.
    header: Vec<u8>,
    /// The current message, once its header is complete.
    current: Option<(Probe, usize)>,
    /// Received bytes of the current message.
    come: usize,
}

impl Frames {
    /// Takes the next bytes of the stream and passes on each message that they complete, with its length.
    ///
    /// Fails if the stream is not ours; it cannot be read further then.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut message: impl FnMut(&Probe, usize)) -> Result<(), Foreign> {
        while !bytes.is_empty() {
            let wanted = match self.current {
                Some((_, length)) => length - self.come,
                None if self.come < BASE_LEN => BASE_LEN - self.come,
                None => EXTENDED_LEN - self.come,
            };
            let (part, rest) = bytes.split_at(wanted.min(bytes.len()));
            bytes = rest;
            if self.current.is_none() {
                self.header.extend_from_slice(part);
            }
            self.come += part.len();
            if part.len() < wanted {
                return Ok(());
            }
            if self.current.is_none() {
                self.current = self.parse()?;
            }
            if let Some((probe, length)) = self.current
                && self.come == length
            {
                message(&probe, length);
                (self.current, self.come) = (None, 0);
                self.header.clear();
            }
        }
        Ok(())
    }

    /// Bytes of an incomplete message.
    pub(crate) fn partial(&self) -> usize {
        self.come
    }

    /// The current message and its length. `None`: more of its header is needed.
    fn parse(&self) -> Result<Option<(Probe, usize)>, Foreign> {
        let probe = match Probe::parse(&self.header) {
            Err(Foreign::Short(bytes)) if bytes < EXTENDED_LEN => return Ok(None),
            parsed => parsed?,
        };
        let extension = probe.extension.ok_or(Foreign::Length(0))?;
        Ok(Some((probe, extension.length as usize)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_wire::probe::{Extension, Kind};

    use super::*;

    fn message(kind: Kind, sequence: u32, length: Option<usize>, total: usize) -> Vec<u8> {
        let extension = length.map(|length| Extension { intended: 1, clock: 2, incarnation: 3, length: length as u32 });
        let mut bytes = vec![0xa7; total];
        Probe { kind, session: 3, sequence, sent: 4, extension }.write(&mut bytes).unwrap();
        bytes
    }

    fn feed(frames: &mut Frames, bytes: &[u8]) -> Result<Vec<(Kind, u32, usize)>, Foreign> {
        let mut messages = Vec::new();
        frames.feed(bytes, |probe, length| messages.push((probe.kind, probe.sequence, length))).map(|()| messages)
    }

    proptest! {
        #[test]
        fn finds_the_messages_wherever_the_reads_cut(
            lengths in proptest::collection::vec(40usize..200, 1..20),
            cuts in proptest::collection::vec(1usize..90, 1..20),
        ) {
            let (mut stream, mut expected) = (Vec::new(), Vec::new());
            for (number, &length) in (0..).zip(&lengths) {
                stream.extend(message(Kind::Message, number, Some(length), length));
                expected.push((Kind::Message, number, length));
            }
            stream.extend(message(Kind::End, lengths.len() as u32, Some(40), 40));
            expected.push((Kind::End, lengths.len() as u32, 40));

            let (mut frames, mut found, mut rest) = (Frames::default(), Vec::new(), &stream[..]);
            for &cut in cuts.iter().cycle() {
                if rest.is_empty() { break }
                let (part, behind) = rest.split_at(cut.min(rest.len()));
                found.extend(feed(&mut frames, part).unwrap());
                rest = behind;
            }
            prop_assert_eq!(found, expected);
            prop_assert_eq!(frames.partial(), 0);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), ours in any::<bool>()) {
            let mut stream = if ours { message(Kind::Message, 0, Some(50), 50) } else { Vec::new() };
            stream.extend(bytes);
            let _ = feed(&mut Frames::default(), &stream);
        }
    }

    #[test]
    fn a_message_without_a_length_is_foreign() {
        assert_eq!(feed(&mut Frames::default(), &message(Kind::Message, 0, None, 16)), Err(Foreign::Length(0)));
    }

    #[test]
    fn knows_the_rest() {
        let mut frames = Frames::default();
        assert_eq!(feed(&mut frames, &message(Kind::Message, 0, Some(1000), 700)), Ok(vec![]));
        assert_eq!(frames.partial(), 700);
    }
}
