//! One record of a data source, as it last came, and how fast its totals grow.

mod kept;

use weir_wire::sflow::{Field, Kind, Meaning, Record, Structure, Value};

use crate::agents::{Moment, Nanos};

/// Fields that are kept of a record.
const FIELDS: usize = 64;
/// Two records closer to one another than this, ms, have no rate: agents do not read their totals at one instant.
const SHORTEST: f64 = 100.0;
/// By how much later than the datagram says totals may have been read, s: switches read theirs every few seconds.
const CACHED: f64 = 5.0;
/// By how much faster than its speed an interface may be.
const TOLERANCE: f64 = 1.1;
/// Octets that an interface counts for a packet, at least: its frame, without check sequence (RFC 2863).
const SHORTEST_PACKET: f64 = 60.0;
/// Nothing grows faster, where no interface's speed is known: 10 Tbit/s in bytes a second.
const FASTEST: f64 = 1.25e12;

/// Why there is no rate, and why something of a sample is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The first total of this data source.
    First,
    /// The agent restarted, or counts on elsewhere.
    Restart,
    /// The totals went back to the beginning.
    Reset,
    /// The total grew by more than can be.
    Impossible,
    /// The total may have wrapped more than once.
    Ambiguous,
    /// The agent does not count it: all ones.
    Unknown,
    /// The field is no total.
    NoTotal,
    /// The speed of the interface, which its octets have passed.
    Contradicted,
    /// A record that came right after the last.
    TooSoon,
    /// A counter sample that later ones overtook.
    Late,
    /// A counter sample that never came, as the sequence of its data source tells.
    Lost,
    /// A record of a structure that nobody knows, or that is malformed.
    Unreadable,
    /// A record of a data source that already has the most that are kept.
    Refused,
    /// A counter sample of a data source of which another stream tells, too.
    Shared,
}

/// Each reason with its name in metrics and in JSON, in their order.
const REASONS: [(Reason, &str); 14] = [
    (Reason::First, "first"),
    (Reason::Restart, "restart"),
    (Reason::Reset, "reset"),
    (Reason::Impossible, "impossible"),
    (Reason::Ambiguous, "ambiguous"),
    (Reason::Unknown, "unknown"),
    (Reason::NoTotal, "no_total"),
    (Reason::Contradicted, "contradicted"),
    (Reason::TooSoon, "too_soon"),
    (Reason::Late, "late"),
    (Reason::Lost, "lost"),
    (Reason::Unreadable, "unreadable"),
    (Reason::Refused, "refused"),
    (Reason::Shared, "shared"),
];

impl Reason {
    /// Its name.
    pub fn name(self) -> &'static str {
        REASONS[self as usize].1
    }
}

/// How often each of them was met, of all data sources of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasons([u64; REASONS.len()]);

impl Reasons {
    /// How often this one was.
    pub fn of(&self, reason: Reason) -> u64 {
        self.0[reason as usize]
    }

    /// How often each was, by name, but for those that are no fault of a total.
    pub fn absent(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let absent = REASONS.iter().filter(|(reason, _)| !matches!(reason, Reason::NoTotal | Reason::Contradicted));
        absent.map(|&(reason, name)| (name, self.of(reason)))
    }

    pub(crate) fn count(&mut self, reason: Reason) {
        self.add(reason, 1);
    }

    pub(super) fn add(&mut self, reason: Reason, times: u32) {
        self.0[reason as usize] += u64::from(times);
    }
}

/// One record.
#[derive(Debug)]
pub struct Block {
    /// Which.
    pub structure: &'static Structure,
    /// What tells it apart from others of the same structure; 0 if nothing does.
    pub identity: u32,
    /// When it came.
    pub moment: Moment,
    /// Over which rates are, s; 0: there is none yet.
    pub interval: f32,
    /// A speed that octets have passed, bit/s; 0: none that the interface has said.
    passed: u64,
    fields: Box<[Total]>,
    texts: Vec<(u8, Vec<u8>)>,
}

/// A field's value, and how fast it grows.
#[derive(Clone, Copy, Debug)]
struct Total {
    /// As its kind has it: numbers, or the bits of a float.
    value: u64,
    rate: f32,
    known: bool,
    reason: Option<Reason>,
}

/// A record of which nothing has come.
fn unknown(structure: &Structure) -> Box<[Total]> {
    let unknown = Total { value: 0, rate: 0.0, known: false, reason: Some(Reason::NoTotal) };
    vec![unknown; structure.fields.len().min(FIELDS)].into()
}

/// What came for a field.
type Came = Option<u64>;

impl Block {
    pub(super) fn new(
        record: &Record<'_>,
        structure: &'static Structure,
        moment: Moment,
        reasons: &mut Reasons,
    ) -> Self {
        let mut block = Self {
            structure,
            identity: identity(record),
            moment,
            interval: 0.0,
            passed: 0,
            fields: unknown(structure),
            texts: Vec::new(),
        };
        let came = block.read(record);
        block.settle(&came, Some(Reason::First), reasons);
        block
    }

    /// Takes the record that comes next. `reason`: nothing can be known from the difference.
    pub(super) fn update(
        &mut self,
        record: &Record<'_>,
        moment: Moment,
        reason: Option<Reason>,
        reasons: &mut Reasons,
    ) {
        let milliseconds = elapsed(&self.moment, &moment);
        if reason.is_none() && milliseconds < SHORTEST {
            reasons.count(Reason::TooSoon);
            return;
        }
        let came = self.read(record);
        self.moment = moment;
        self.interval = (milliseconds / 1000.0) as f32;
        let reset = reason.is_none() && self.went_back(&came);
        self.settle(&came, reason.or(reset.then_some(Reason::Reset)), reasons);
    }

    /// Whether the totals began again: one of 64 bits went back, or all did that there are, and not over their end.
    fn went_back(&self, came: &[Came]) -> bool {
        let (mut back, mut on, mut wide) = (0, 0, false);
        for ((total, field), came) in self.fields.iter().zip(self.structure.fields).zip(came) {
            let Some(now) = came.filter(|_| field.meaning == Meaning::Counter && total.known && total.value > 0) else {
                continue;
            };
            let end = if matches!(field.kind, Kind::U64) { u64::MAX } else { u64::from(u32::MAX) };
            let over_its_end = total.value > end - end / 16 && now < end / 16;
            let began_again = now < total.value && !over_its_end;
            back += u32::from(began_again);
            on += u32::from(!began_again);
            wide |= began_again && matches!(field.kind, Kind::U64);
        }
        wide || back > 1 && on == 0
    }

    /// Takes values over, and rates, where there is no reason against them.
    fn settle(&mut self, came: &[Came], against: Option<Reason>, reasons: &mut Reasons) {
        let octets = self.octets(came);
        if against.is_none() {
            self.doubt_speed(came, octets);
        }
        for ((total, field), came) in self.fields.iter_mut().zip(self.structure.fields).zip(came) {
            if field.meaning != Meaning::Counter {
                (total.value, total.known) = (came.unwrap_or(0), came.is_some());
                continue;
            }
            let rate = match (*came, total.known, against) {
                (None, ..) => Err(Reason::Unknown),
                (_, _, Some(reason)) => Err(reason),
                (_, false, _) => Err(Reason::First),
                (Some(now), ..) => rate(field, total.value, now, f64::from(self.interval), octets),
            };
            (total.value, total.known) = (came.unwrap_or(0), came.is_some());
            total.reason = rate.err();
            total.rate = rate.unwrap_or(0.0);
            total.reason.into_iter().for_each(|reason| reasons.count(reason));
        }
    }

    /// By what the octets of an interface grew, in and out.
    fn octets(&self, came: &[Came]) -> [Option<f64>; 2] {
        let is_interface = u32::from(self.structure.format) == 1;
        let grown = |field: usize| Some(came[field]?.wrapping_sub(self.known(field)?) as f64);
        [IN_OCTETS, OUT_OCTETS].map(|field| grown(field).filter(|_| is_interface))
    }

    /// What an interface counts goes before the speed that it says it has.
    fn doubt_speed(&mut self, came: &[Came], octets: [Option<f64>; 2]) {
        let Some(speed) = came.get(SPEED).copied().flatten().filter(|speed| *speed > 0) else { return };
        let interval = f64::from(self.interval);
        let passes =
            |octets: f64| octets <= FASTEST * interval && octets * 8.0 > speed as f64 * (interval * TOLERANCE + CACHED);
        // Twice in a row: once may be another interface under this index, or a total that was read half.
        let rate = |field: usize| self.fields.get(field).map_or(0.0, |total| f64::from(total.rate));
        let before = [IN_OCTETS, OUT_OCTETS].map(|field| rate(field) * interval);
        if octets.into_iter().zip(before).any(|(octets, before)| octets.is_some_and(passes) && passes(before)) {
            self.passed = speed;
        }
    }

    /// The speed of an interface. `None`: it says none, or 2^32 - 1 for want of bits.
    ///
    /// # Errors
    /// It has been faster.
    pub(super) fn speed(&self) -> Result<f64, Reason> {
        match self.known(SPEED).filter(|speed| *speed > 0 && *speed != u64::from(u32::MAX)) {
            Some(speed) if speed == self.passed => Err(Reason::Contradicted),
            Some(speed) => Ok(speed as f64),
            None => Err(Reason::Unknown),
        }
    }

    fn known(&self, field: usize) -> Option<u64> {
        self.fields.get(field).filter(|total| total.known).map(|total| total.value)
    }

    fn read(&mut self, record: &Record<'_>) -> [Came; FIELDS] {
        let mut came = [None; FIELDS];
        for (index, value) in record.values().enumerate().take(self.fields.len()) {
            let Ok((field, value)) = value else { break };
            match number(field, &value) {
                Some(number) => came[index] = number,
                None => self.keep_text(index as u8, &value),
            }
        }
        came
    }

    fn keep_text(&mut self, index: u8, value: &Value<'_>) {
        let bytes = match value {
            Value::Text(bytes) | Value::Opaque(bytes) => &bytes[..bytes.len().min(LONGEST_TEXT)],
            Value::Uuid(uuid) => &uuid[..],
            _ => return,
        };
        match self.texts.iter_mut().find(|(at, _)| *at == index) {
            Some((_, kept)) => {
                kept.clear();
                kept.extend_from_slice(bytes);
            }
            None => self.texts.push((index, bytes.to_vec())),
        }
    }

    /// How fast a total grows, a second.
    ///
    /// # Errors
    /// Why there is no rate.
    pub fn rate(&self, field: usize) -> Result<f64, Reason> {
        let total = self.fields.get(field).ok_or(Reason::NoTotal)?;
        total.reason.map_or(Ok(f64::from(total.rate)), Err)
    }

    /// A field's value as a number. `None`: the agent does not know it, or it is none.
    pub fn value(&self, field: usize) -> Option<f64> {
        let value = self.known(field)?;
        Some(match self.structure.fields[field].kind {
            Kind::F32 => f64::from(f32::from_bits(value as u32)),
            Kind::I32 => f64::from(value as u32 as i32),
            _ => value as f64,
        })
    }

    /// A field's value as it is written, in as many bits as it has. `None`: the agent does not know it.
    pub fn bits(&self, field: usize) -> Option<u64> {
        self.known(field)
    }

    /// A field's text as it came: at most 255 bytes, which need be neither UTF-8 nor fit for a terminal. UUIDs are 16 bytes.
    pub fn text(&self, field: usize) -> Option<&[u8]> {
        self.texts.iter().find(|(index, _)| usize::from(*index) == field).map(|(_, text)| &text[..])
    }
}

const LONGEST_TEXT: usize = 255;

// Where they stand in if_counters.
const SPEED: usize = 2;
const IN_OCTETS: usize = 5;
const OUT_OCTETS: usize = 12;

/// How fast a total grew from `last` to `now`, if it can have, where octets of its interface grew by so much, in and out.
fn rate(field: &Field, last: u64, now: u64, interval: f64, octets: [Option<f64>; 2]) -> Result<f32, Reason> {
    let narrow = matches!(field.kind, Kind::U32);
    let grown = if narrow { u64::from((now as u32).wrapping_sub(last as u32)) } else { now.wrapping_sub(last) } as f64;
    if grown > FASTEST * (interval + CACHED) {
        return Err(Reason::Impossible);
    }
    let packets = field.name.ends_with("castPkts");
    let octets = octets[usize::from(field.name.starts_with("ifOut"))].filter(|_| packets);
    // What wrapped within one interval has grown fast: packets had to be carried, other things do not happen so often.
    if narrow && now < last && octets.map_or(grown > WRAP / 2.0, |octets| grown * SHORTEST_PACKET > octets) {
        return Err(Reason::Reset);
    }
    // As many packets as these octets can be.
    if narrow && octets.is_some_and(|octets| octets / SHORTEST_PACKET > WRAP) {
        return Err(Reason::Ambiguous);
    }
    Ok((grown / interval) as f32)
}

/// A total of 32 bits begins again.
const WRAP: f64 = 4_294_967_296.0;

/// The time between two records, ms: by the agent's uptime, else by arrival.
fn elapsed(last: &Moment, now: &Moment) -> f64 {
    if now.clock == 0 || now.clock != last.clock || now.epoch != last.epoch {
        return now.now.saturating_sub(last.now) as f64 / 1e6;
    }
    f64::from(now.uptime.wrapping_sub(last.uptime))
}

/// A number as it is kept: `Some(None)` if the agent does not know it, `None` if it is no number.
fn number(field: &Field, value: &Value<'_>) -> Option<Came> {
    let unknown = matches!(field.meaning, Meaning::Counter | Meaning::Gauge);
    Some(match *value {
        Value::U8(value) => Some(u64::from(value)),
        Value::U32(u32::MAX) | Value::U64(u64::MAX) | Value::I32(-1) if unknown => None,
        Value::F32(value) if unknown && (value == -1.0 || !value.is_finite()) => None,
        Value::U32(value) => Some(u64::from(value)),
        Value::I32(value) => Some(u64::from(value as u32)),
        Value::U64(value) => Some(value),
        Value::F32(value) => Some(u64::from(value.to_bits())),
        Value::Mac(mac) => Some(mac.iter().fold(0, |all, &byte| all << 8 | u64::from(byte))),
        _ => return None,
    })
}

/// What tells a record apart from others of its structure in one sample: which queue, which module.
pub(super) fn identity(record: &Record<'_>) -> u32 {
    match record.values().next() {
        Some(Ok((Field { meaning: Meaning::Identity, .. }, Value::U32(identity)))) => identity,
        _ => 0,
    }
}

/// After how many intervals without news a rate is stale.
pub(super) const STALE: f64 = 3.0;

/// How old something is.
pub(super) fn age(moment: &Moment, now: Nanos) -> Nanos {
    now.saturating_sub(moment.now)
}
