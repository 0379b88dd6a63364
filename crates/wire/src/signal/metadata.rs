//! What the channels of a sender are.

use super::field::{self, Field, Fields, put, put_text};
use super::{Element, Malformed, Rate};

/// Metadata of a sender: who it is, and some of its channels. One datagram has as many as fit; all of them together have all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// The station.
    pub station: String,
    /// Which of its streams.
    pub stream: String,
    /// What it runs.
    pub software: String,
    /// Channels, in the order in which they stand in the datagram.
    pub channels: Vec<Channel>,
}

/// What a channel is.
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    /// Its number in blocks.
    pub id: u16,
    /// Its name, unique in the stream.
    pub name: String,
    /// Unit of what it measures; empty: none.
    pub unit: String,
    /// What it is; may be empty.
    pub description: String,
    /// The station that it comes from, where another sends it on; empty: the sender's.
    pub origin: String,
    /// The stream of that station; empty: nobody says.
    pub origin_stream: String,
    /// Whether a server computes it of other channels.
    pub derived: bool,
    /// Limits.
    pub limits: Limits,
    /// What it measures is value x scale + offset.
    pub scale: f64,
    /// See `scale`.
    pub offset: f64,
    /// How fast samples follow.
    pub rate: Rate,
    /// What its values are on the wire.
    pub element: Element,
    /// Samples a bucket, as it is sent now; 1: each sample; 0: it is not sent.
    pub bucket: u32,
    /// Of those that send a channel of the same origin on, the one with the least is to be followed.
    pub priority: u8,
}

/// Limits of a channel, in what it measures (scaled). `None`: not told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// The lower end of its display.
    pub display_low: Option<f64>,
    /// The upper end of its display.
    pub display_high: Option<f64>,
    /// Below it is an alarm of high severity.
    pub very_low: Option<f64>,
    /// Below it is an alarm.
    pub low: Option<f64>,
    /// Above it is an alarm.
    pub high: Option<f64>,
    /// Above it is an alarm of high severity.
    pub very_high: Option<f64>,
}

impl Default for Channel {
    fn default() -> Self {
        Self {
            id: 0,
            name: String::new(),
            unit: String::new(),
            description: String::new(),
            origin: String::new(),
            origin_stream: String::new(),
            derived: false,
            limits: Limits::default(),
            scale: 1.0,
            offset: 0.0,
            rate: Rate::hertz(1),
            element: Element::default(),
            bucket: 1,
            priority: 0,
        }
    }
}

impl Limits {
    fn all(&self) -> [(u8, Option<f64>); 6] {
        let [display_low, display_high] = field::DISPLAY;
        let [very_low, low, high, very_high] = field::ALARM;
        [
            (display_low, self.display_low),
            (display_high, self.display_high),
            (very_low, self.very_low),
            (low, self.low),
            (high, self.high),
            (very_high, self.very_high),
        ]
    }

    fn of(&mut self, key: u8) -> Option<&mut Option<f64>> {
        let [display_low, display_high] = field::DISPLAY;
        let [very_low, low, high, very_high] = field::ALARM;
        Some(match key {
            _ if key == display_low => &mut self.display_low,
            _ if key == display_high => &mut self.display_high,
            _ if key == very_low => &mut self.very_low,
            _ if key == low => &mut self.low,
            _ if key == high => &mut self.high,
            _ if key == very_high => &mut self.very_high,
            _ => return None,
        })
    }
}

impl Metadata {
    /// Reads what is behind the header of a datagram of metadata.
    ///
    /// # Errors
    /// A field that is cut, has another length than its key has, is not UTF-8, or belongs to a channel and stands in front of the first;
    /// an element that is unknown; a rate without ticks.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut metadata = Self::default();
        for field in Fields(bytes) {
            let field = field?;
            match field.key {
                field::STATION => metadata.station = field.text()?.to_owned(),
                field::STREAM => metadata.stream = field.text()?.to_owned(),
                field::SOFTWARE => metadata.software = field.text()?.to_owned(),
                field::CHANNEL => metadata.channels.push(Channel { id: field.u16()?, ..Channel::default() }),
                key if key < field::CHANNEL => {}
                key => metadata.channels.last_mut().ok_or(Malformed::Homeless(key))?.take(field)?,
            }
        }
        Ok(metadata)
    }

    /// Appends who the sender is; channels follow with [`Channel::write`].
    pub fn write_sender(&self, bytes: &mut Vec<u8>) {
        put_text(bytes, field::STATION, &self.station);
        put_text(bytes, field::STREAM, &self.stream);
        put_text(bytes, field::SOFTWARE, &self.software);
    }
}

impl Channel {
    fn take(&mut self, field: Field<'_>) -> Result<(), Malformed> {
        match field.key {
            field::NAME => self.name = field.text()?.to_owned(),
            field::UNIT => self.unit = field.text()?.to_owned(),
            field::DESCRIPTION => self.description = field.text()?.to_owned(),
            field::ORIGIN => self.origin = field.text()?.to_owned(),
            field::ORIGIN_STREAM => self.origin_stream = field.text()?.to_owned(),
            field::DERIVED => self.derived = field.u8()? != 0,
            field::SCALE => self.scale = field.f64()?,
            field::OFFSET => self.offset = field.f64()?,
            field::PER_SECOND => self.rate.per_second = ticks(field)?,
            field::PER_SAMPLE => self.rate.per_sample = ticks(field)?,
            field::ELEMENT => {
                let code = field.u8()?;
                self.element = Element::from_code(code).ok_or(Malformed::Element(code))?;
            }
            field::BUCKET => self.bucket = field.u32()?,
            field::PRIORITY => self.priority = field.u8()?,
            key => {
                if let Some(limit) = self.limits.of(key) {
                    *limit = Some(field.f64()?);
                }
            }
        }
        Ok(())
    }

    /// Appends it.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        put(bytes, field::CHANNEL, self.id.to_le_bytes());
        put_text(bytes, field::NAME, &self.name);
        put_text(bytes, field::UNIT, &self.unit);
        put_text(bytes, field::DESCRIPTION, &self.description);
        put_text(bytes, field::ORIGIN, &self.origin);
        put_text(bytes, field::ORIGIN_STREAM, &self.origin_stream);
        for (key, limit) in self.limits.all() {
            if let Some(limit) = limit {
                put(bytes, key, limit.to_le_bytes());
            }
        }
        for (key, value, plain) in [(field::SCALE, self.scale, 1.0), (field::OFFSET, self.offset, 0.0)] {
            if value.to_bits() != f64::to_bits(plain) {
                put(bytes, key, value.to_le_bytes());
            }
        }
        put(bytes, field::PER_SECOND, self.rate.per_second.to_le_bytes());
        put(bytes, field::PER_SAMPLE, self.rate.per_sample.to_le_bytes());
        put(bytes, field::ELEMENT, [self.element as u8]);
        put(bytes, field::BUCKET, self.bucket.to_le_bytes());
        if self.priority != 0 {
            put(bytes, field::PRIORITY, [self.priority]);
        }
        if self.derived {
            put(bytes, field::DERIVED, [1]);
        }
    }
}

fn ticks(field: Field<'_>) -> Result<u32, Malformed> {
    field.u32().and_then(|ticks| if ticks == 0 { Err(Malformed::Rate) } else { Ok(ticks) })
}
