//! Channels made of others: an expression over channels aligned by time, and a statistic over a window of it.
//!
//! The first channel of an expression sets the rate and the times; of the others the sample counts that is within half of its own period.
//! A gap in one of them is a gap of the result, of the same cause. Only whole samples are computed with: what comes as buckets of many has
//! no values to compute with, and is a gap of cause `unselected`. A spectrum makes a channel of a lower rate, a sample each half window.

mod spectrum;
mod statistic;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use weir_units::expression::{Expression, ExpressionError};
use weir_wire::signal::{Block, Cause, Channel, Element, Gap, OwnedBlock, Rate, Values};

use super::settings::{self, Watching, Window};
use spectrum::{Reading, Spectrum};
use statistic::Moving;
pub use statistic::Statistic;
use weir_signal::history::{Catalog, ChannelId, Cursor, History, Listed};

/// The station, and the stream, of the channels that a server makes.
pub(super) const STATION: &str = "derived";

/// All channels that are made of others.
#[derive(Debug, Default)]
pub(super) struct Derive {
    all: Vec<Made>,
    watching: Arc<Watching>,
}

/// A channel that is made of others.
#[derive(Debug)]
struct Made {
    settings: settings::Derive,
    expression: Expression,
    /// In the order in which the expression takes them: the first sets the times.
    inputs: Vec<Input>,
    over: Over,
    /// In the history, once all inputs are known.
    id: Option<ChannelId>,
    /// In which inputs were looked for.
    catalog: Catalog,
}

/// What becomes of a sample.
#[derive(Debug)]
enum Over {
    Each,
    Moving(Moving),
    Spectrum(Spectrum),
}

#[derive(Debug)]
struct Input {
    /// `station/channel`.
    name: String,
    /// `None`: there is no such channel.
    cursor: Option<Cursor>,
    rate: Rate,
    scale: (f64, f64),
    pieces: VecDeque<Piece>,
    /// Time behind its last sample, ns.
    end: Option<i64>,
    /// Its station has ended in order: nothing of it is waited for.
    ended: bool,
}

/// Samples of an input one after another, or so many that are missing.
#[derive(Debug)]
struct Piece {
    time: i64,
    rate: Rate,
    values: Result<Vec<f64>, (u64, Cause)>,
}

/// Reads an expression whose names are channels.
///
/// # Errors
/// The first mistake, with its place.
pub(super) fn read(expression: &str) -> Result<Expression, ExpressionError> {
    let read = Expression::parse(expression, |name| match name.contains('/') {
        true => Ok(()),
        false => Err(format!("`{}` is no channel: write {{STATION/CHANNEL}}, e.g. {{coil/I}}", name.escape_debug())),
    })?;
    if read.names().is_empty() {
        return Err(ExpressionError { at: 0, message: "it has no channel in it, e.g. {coil/I}".into() });
    }
    Ok(read)
}

/// Of channels that are made of others, by name and expression: the first that is made of one that is not above it.
///
/// # Errors
/// Its place, and what is wrong.
pub(super) fn order(all: &[(String, String)]) -> Result<(), (usize, String)> {
    for (at, (_, expression)) in all.iter().enumerate() {
        let names = read(expression).map(|read| read.names().to_vec()).unwrap_or_default();
        let is_used = |(name, _): &&(String, String)| names.contains(&format!("{STATION}/{name}"));
        if let Some((name, _)) = all[at..].iter().find(is_used) {
            return Err((at, format!("`{name}` is not above it: write it after those that it uses")));
        }
    }
    Ok(())
}

impl Derive {
    /// Makes what can be made of what is new in the history. `watching`: which channels; what is the same as before goes on.
    pub(super) fn look(&mut self, history: &History, watching: &Arc<Watching>) {
        if self.watching.derive != watching.derive {
            let mut before = std::mem::take(&mut self.all);
            for settings in &watching.derive {
                let same = before.iter().position(|made| made.settings == *settings);
                self.all.extend(same.map(|at| before.swap_remove(at)).or_else(|| Made::new(settings)));
            }
            let mut writing = history.write();
            before.into_iter().filter_map(|made| made.id).for_each(|id| writing.end(id));
        }
        self.watching.clone_from(watching);
        // One may be made of those above it.
        self.all.iter_mut().for_each(|made| made.look(history, watching));
    }
}

impl Made {
    fn new(settings: &settings::Derive) -> Option<Self> {
        // They have been read when they were checked.
        let expression = read(&settings.expression).ok()?;
        let input = |name: &String| Input {
            name: name.clone(),
            cursor: None,
            rate: Rate::hertz(1),
            scale: (1.0, 0.0),
            pieces: VecDeque::new(),
            end: None,
            ended: false,
        };
        let inputs = expression.names().iter().map(input).collect();
        let (settings, catalog) = (settings.clone(), Catalog::default());
        Some(Self { settings, expression, inputs, over: Over::Each, id: None, catalog })
    }

    fn look(&mut self, history: &History, watching: &Watching) {
        let catalog = history.catalog();
        if !Arc::ptr_eq(&catalog, &self.catalog) {
            self.inputs.iter_mut().for_each(|input| input.find(&catalog, history));
            self.id = self.id.filter(|id| catalog[id.key as usize].id() == *id);
            self.catalog = catalog;
        }
        if self.inputs.iter().any(|input| input.cursor.is_none()) {
            return;
        }
        self.id = self.id.or_else(|| self.list(history, watching));
        let Some(id) = self.id else { return };
        self.inputs.iter_mut().for_each(|input| input.read(history));
        let mut results = Vec::new();
        self.go_on(&mut results);
        let has_ended = self.inputs.iter().any(|input| input.ended);
        if has_ended || !results.is_empty() {
            let mut writing = history.write();
            for made in &results {
                writing.append(id, &made.block());
            }
            // What was still to be computed says of nothing more to come.
            if has_ended {
                writing.end(id);
            }
        }
    }

    /// Keeps it in the history, if there is room.
    fn list(&mut self, history: &History, watching: &Watching) -> Option<ChannelId> {
        let settings::Derive { name, unit, expression, window } = &self.settings;
        let rate = self.inputs[0].rate;
        self.over = window.map_or(Over::Each, |window| Over::new(window, rate));
        let (name, unit, description) = (name.clone(), unit.clone(), expression.clone());
        let (rate, element, derived) = (self.over.rate(rate), Element::F64, true);
        let channel = Channel { name, unit, description, rate, element, derived, ..Channel::default() };
        let mut writing = history.write();
        let id = writing.channel(STATION, STATION, &channel)?;
        writing.set_limits(id.key, watching.limits(STATION, &channel));
        Some(id)
    }

    /// Computes what can be.
    fn go_on(&mut self, results: &mut Vec<OwnedBlock>) {
        let (mut arguments, mut stack) = (vec![0.0; self.inputs.len()], Vec::new());
        while let Some(mut piece) = self.inputs[0].pieces.pop_front() {
            let late = self.inputs[0].end.unwrap_or(piece.time).saturating_sub(piece.time) > MOST_WAIT;
            match &mut piece.values {
                Err((samples, cause)) => {
                    self.over.skip(piece.time, piece.rate, (*samples, *cause), |time, rate, value| {
                        give(results, time, rate, value);
                    });
                }
                Ok(values) => {
                    let mut done = 0;
                    for (index, &value) in values.iter().enumerate() {
                        let time = piece.rate.after(piece.time, index as u64);
                        let mut outcome = Some(Ok(()));
                        for (place, input) in self.inputs.iter_mut().enumerate() {
                            arguments[place] = if place == 0 {
                                value
                            } else {
                                match input.at(time) {
                                    Some(Ok(value)) => value,
                                    Some(Err(cause)) => {
                                        outcome = Some(Err(cause));
                                        break;
                                    }
                                    // Who is waited for for too long stands still, and who has ended says nothing more.
                                    None if late || input.ended => {
                                        outcome = Some(Err(Cause::Source));
                                        break;
                                    }
                                    None => {
                                        outcome = None;
                                        break;
                                    }
                                }
                            };
                        }
                        let Some(outcome) = outcome else { break };
                        done = index + 1;
                        let value = outcome.map(|()| self.expression.evaluate(&arguments, &mut stack));
                        let mut give = |time, rate, value| give(results, time, rate, value);
                        match value {
                            Ok(value) => self.over.push(time, piece.rate, value, &mut give),
                            Err(cause) => self.over.skip(time, piece.rate, (1, cause), &mut give),
                        }
                    }
                    if done < values.len() {
                        let time = piece.rate.after(piece.time, done as u64);
                        values.drain(..done);
                        self.inputs[0].pieces.push_front(Piece { time, ..piece });
                        return;
                    }
                }
            }
        }
    }
}

impl Over {
    fn new(window: Window, rate: Rate) -> Self {
        let samples = |span: Duration| rate.samples(i128::try_from(span.as_nanos()).unwrap_or(i128::MAX));
        match window {
            Window::Moving(statistic, span) => {
                Self::Moving(Moving::new(statistic, samples(span).clamp(1, MOST_WINDOW) as usize))
            }
            Window::PeakFrequency(span) => Self::Spectrum(Spectrum::new(Reading::PeakFrequency, samples(span), rate)),
            Window::Amplitude(frequency, span) => {
                let reading = Reading::Amplitude(frequency.micro_hertz as f64 / 1e6);
                Self::Spectrum(Spectrum::new(reading, samples(span), rate))
            }
        }
    }

    /// Of what is made, where samples have this one.
    fn rate(&self, rate: Rate) -> Rate {
        if let Self::Spectrum(spectrum) = self { spectrum.rate(rate) } else { rate }
    }

    /// Takes a sample, and gives what it makes: its time, its rate, and the value, or so many that are missing.
    fn push(&mut self, time: i64, rate: Rate, value: f64, mut give: impl FnMut(i64, Rate, Given)) {
        match self {
            Self::Each => give(time, rate, Ok(value)),
            Self::Moving(moving) => give(time, rate, moving.push(value).map_err(|cause| (1, cause))),
            Self::Spectrum(spectrum) => {
                let begin = rate.before(time, spectrum.passed());
                if let Some(value) = spectrum.push(value, rate) {
                    give(begin, spectrum.rate(rate), value.map_err(|cause| (1, cause)));
                }
            }
        }
    }

    /// So many samples are missing.
    fn skip(&mut self, time: i64, rate: Rate, (samples, cause): (u64, Cause), mut give: impl FnMut(i64, Rate, Given)) {
        match self {
            Self::Each => give(time, rate, Err((samples, cause))),
            Self::Moving(moving) => {
                moving.clear(cause);
                give(time, rate, Err((samples, cause)));
            }
            Self::Spectrum(spectrum) => {
                let begin = rate.before(time, spectrum.passed());
                let missing = spectrum.skip(samples, cause);
                if missing > 0 {
                    give(begin, spectrum.rate(rate), Err((missing, cause)));
                }
            }
        }
    }
}

impl Input {
    /// Looks for its channel; of two streams that have one of that name for the one with whole samples.
    fn find(&mut self, catalog: &Catalog, history: &History) {
        let is_it = |listed: &&Arc<Listed>| {
            let rest = self.name.strip_prefix(&listed.station).and_then(|rest| rest.strip_prefix('/'));
            rest == Some(&listed.channel.name)
        };
        let found = catalog.iter().filter(is_it).max_by_key(|listed| listed.channel.bucket == 1);
        let Some(listed) = found else { return self.cursor = None };
        (self.rate, self.scale) = (listed.channel.rate, (listed.channel.scale, listed.channel.offset));
        if self.cursor.is_none_or(|cursor| cursor.id != listed.id()) {
            // Of what is there already, what would have been waited for.
            let end = history.extent(listed.key).unwrap_or_default().end_time;
            let from = end.saturating_sub(MOST_WAIT).max(self.end.unwrap_or(i64::MIN));
            self.cursor = Some(history.cursor(listed.id(), from));
        }
    }

    fn read(&mut self, history: &History) {
        let Some(mut cursor) = self.cursor else { return };
        self.ended = history.extent(cursor.id.key).is_some_and(|extent| extent.has_ended);
        while history.read(&mut cursor, |block| self.push(&block)) {}
        self.cursor = Some(cursor);
    }

    fn push(&mut self, block: &Block<'_>) {
        let (scale, offset) = self.scale;
        let values = match block.values {
            Values::Samples(..) => Ok(block.each().map(|value| value * scale + offset).collect()),
            Values::Buckets(..) => Err((block.samples(), Cause::Unselected)),
            Values::Gap(gap) => Err((gap.samples, gap.cause)),
        };
        self.end = Some(block.time_of(block.end()));
        self.pieces.push_back(Piece { time: block.time, rate: block.rate, values });
        if self.pieces.len() > MOST_PIECES {
            self.pieces.pop_front();
        }
    }

    /// What it was at a time, which never goes back; `None`: that is not known yet.
    fn at(&mut self, time: i64) -> Option<Result<f64, Cause>> {
        loop {
            let piece = self.pieces.front()?;
            let half = piece.rate.nanos(1) / 2;
            let into = i128::from(time) - i128::from(piece.time) + half;
            if into < 0 {
                // Before the first that is here.
                return Some(Err(Cause::Unknown));
            }
            let index = piece.rate.samples(into);
            match &piece.values {
                Ok(values) if index < values.len() as u64 => return Some(Ok(values[index as usize])),
                Err((samples, cause)) if index < *samples => return Some(Err(*cause)),
                _ => drop(self.pieces.pop_front()),
            }
        }
    }
}

/// A value, or how many are missing, and why.
type Given = Result<f64, (u64, Cause)>;

/// Joins what is next to what is there, if it is of the same kind.
fn give(results: &mut Vec<OwnedBlock>, time: i64, rate: Rate, value: Given) {
    let bytes = value.unwrap_or_default().to_le_bytes();
    let values = match value {
        Ok(_) => Values::Samples(Element::F64, &bytes),
        Err((samples, cause)) => Values::Gap(Gap { samples, cause }),
    };
    let block = Block { channel: 0, first: 0, time, rate, values };
    match results.last_mut().filter(|last| last.block().is_like(&block)) {
        Some(last) => last.extend(&block),
        None => results.push(OwnedBlock::new(&block)),
    }
}

/// How long samples wait for those of other channels, ns.
const MOST_WAIT: i64 = 2_000_000_000;

/// Blocks of an input that wait.
const MOST_PIECES: usize = 16_384;

/// Samples of a window.
const MOST_WINDOW: u64 = 10_000_000;
