//! A quantity in a sentence.

use super::reading::{MOST_COURSES, Point, Reading, Series, Topic, ratio, topic};
use super::verdict::{self, Lower, Pair, Verdict};
use super::words::{self, Phrase};

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// The ends of each course, and where it bends.
    Bends,
    /// The ends of each course.
    Ends,
    /// The least and the most of all.
    Extremes,
    /// Not a word.
    Nothing,
}

/// The sentence; `None` if nothing is to be said. The `first` quantity tells every course; of a further one it is enough
/// which is lower.
pub(super) fn tell(reading: &Reading, first: bool, detail: Detail) -> Option<String> {
    let pair = pair(reading);
    let text = match &pair {
        _ if detail == Detail::Nothing => return None,
        Some(pair) if !first && pair.verdict.is_some() => compared(reading, pair, true),
        _ if detail == Detail::Extremes || reading.courses.len() > MOST_COURSES => extremes(reading)?,
        _ => courses(reading, detail == Detail::Bends, pair.as_ref()),
    };
    Some(format!("{}.", words::capital(&text)))
}

/// The two courses of a quantity of which more is better, if it has just two.
fn pair(reading: &Reading) -> Option<Pair<'_>> {
    let delivers = topic(&reading.column) == Topic::Delivery && phrase(reading).is_some();
    match &reading.courses[..] {
        [a, b] if delivers && a.labels.len() + b.labels.len() == 2 => verdict::compare(a, b),
        _ => None,
    }
}

/// The words for a quantity; those of a chart of some cells are in its title.
fn phrase(reading: &Reading) -> Option<Phrase> {
    words::phrase(&reading.column).filter(|_| !reading.selected)
}

/// `at 9 % loss TCP still delivered more than UDP, from 13 % on less`, and how much at the end.
fn compared(reading: &Reading, pair: &Pair<'_>, with_values: bool) -> String {
    let (Some(verdict), Some(phrase)) = (pair.verdict, phrase(reading)) else { return String::new() };
    let noun = reading.noun.as_str();
    let place = |index: usize, first: bool| words::at(noun, pair.shared[index].0, first);
    let end = pair.shared.len() - 1;
    let whereabouts = |lower: Lower, first: bool| match lower {
        _ if noun.is_empty() => String::new(),
        Lower::From(0) if end > 0 => format!("at {}", words::every(noun)),
        Lower::From(index) if index < end => format!("from {} on", words::place(noun, pair.shared[index].0, first)),
        Lower::From(index) | Lower::At(index) => place(index, first),
    };
    let (lower, higher) = (words::names(&pair.lower.labels), words::names(&pair.higher.labels));
    let verb = phrase.verb;
    let (text, less) = match verdict {
        Verdict::Crosses { higher_at, less } => {
            let before = format!("{} {lower} still {verb} more than {higher}", place(higher_at, true));
            (format!("{before}, {} less", whereabouts(less, false)), less)
        }
        Verdict::Below(less) => {
            let text = format!("{} {lower} {verb} less than {higher}", whereabouts(less, true));
            (text.trim_start().to_owned(), less)
        }
    };
    if !with_values {
        return text;
    }
    // At the far end, where it is decided there.
    let shown = match less {
        Lower::From(_) => end,
        Lower::At(index) => index,
    };
    let (own, others) = pair.shared[shown];
    let [own, others] = [own, others].map(|point| words::value(&reading.column, point));
    let named = match less {
        Lower::From(index) if index < end => format!(" {}", place(end, index == 0)),
        _ => String::new(),
    };
    format!("{text}: {own} against {}{named}", words::with_unit(&others, phrase.unit))
}

/// `UDP arrived after 160 µs at every loss, TCP after 150 µs without loss and 22 s at 20 %`.
fn courses(reading: &Reading, bends: bool, pair: Option<&Pair<'_>>) -> String {
    let mut speaker = Speaker { reading, phrase: phrase(reading), said: false, place_said: false };
    let bend = if bends { bend_of(reading) } else { None };
    let is_level = |course: &&Series| course.points.len() < 2 || reading.is_level(course);
    let (level, mut going): (Vec<&Series>, Vec<&Series>) = reading.courses.iter().partition(is_level);
    let mut parts = Vec::new();
    let places = if going.len() > 2 { common_places(&going, bend) } else { Vec::new() };
    if places.is_empty() {
        going = reading.courses.iter().collect();
    } else {
        parts.extend(level.iter().map(|course| speaker.along(course, None)));
        parts.extend(places.iter().map(|x| speaker.across(&going, *x)));
        going.clear();
    }
    parts.extend(going.iter().map(|course| speaker.along(course, bend)));
    let apart = if parts.iter().any(|part| part.contains(" and ") || part.contains(", ")) { "; " } else { ", " };
    let lead = match &speaker.phrase {
        Some(phrase) => phrase.lead.to_owned(),
        None => words::title(&reading.column, &reading.title),
    };
    let decided = pair.map(|pair| match pair.verdict {
        Some(Verdict::Crosses { .. }) => format!("; {}", compared(reading, pair, false)),
        None if pair.undecided => "; which is more is not decided".to_owned(),
        _ => String::new(),
    });
    format!("{lead} {}{}", parts.join(apart), decided.unwrap_or_default()).trim_start().to_owned()
}

/// Says values with their names, and what is needed only once.
struct Speaker<'a> {
    reading: &'a Reading,
    phrase: Option<Phrase>,
    /// Whether verb and unit were said.
    said: bool,
    /// Whether it was said of what the places are.
    place_said: bool,
}

impl Speaker<'_> {
    /// A course: from where to where if it is level, else its ends and where it bends.
    fn along(&mut self, course: &Series, bend: Option<f64>) -> String {
        let (column, noun) = (&self.reading.column, &self.reading.noun);
        let values = match &course.points[..] {
            [] => String::new(),
            [only] if noun.is_empty() => self.unit(&words::value(column, only)),
            [only] => format!("{} {}", self.unit(&words::value(column, only)), self.place(only)),
            [first, ..] if self.reading.is_level(course) => {
                let (low, high) = course.span();
                let value = if low < high { words::range(column, low, high) } else { words::value(column, first) };
                self.place_said = true;
                format!("{} at {}", self.unit(&value), words::every(noun))
            }
            points => {
                let bend = course.turn(self.reading.level()).or(bend);
                let last = points.len() - 1;
                let told = points.iter().enumerate().filter(|(at, p)| *at == 0 || *at == last || Some(p.x) == bend);
                let mut parts: Vec<String> = Vec::new();
                for (_, point) in told {
                    let value = words::value(column, point);
                    let value = if parts.is_empty() { self.unit(&value) } else { words::bare(&value) };
                    parts.push(format!("{value} {}", self.place(point)));
                }
                words::listed(&parts)
            }
        };
        self.named(&words::names(&course.labels), &values)
    }

    /// Several courses at one place: those together that are alike there.
    fn across(&mut self, courses: &[&Series], x: f64) -> String {
        let mut groups: Vec<(Vec<words::Label>, Point)> = Vec::new();
        for course in courses {
            let Some(point) = course.points.iter().find(|point| point.x == x) else { continue };
            let near =
                |known: &Point| ratio(known.least.min(point.least), known.most.max(point.most)) <= self.reading.alike();
            match groups.iter_mut().find(|(_, known)| near(known)) {
                Some((labels, known)) => {
                    labels.extend(course.labels.iter().cloned());
                    (known.least, known.most) = (known.least.min(point.least), known.most.max(point.most));
                }
                None => groups.push((course.labels.clone(), point.clone())),
            }
        }
        let place = groups.first().map(|(_, point)| self.place(point)).unwrap_or_default();
        let part = |(labels, point): &(Vec<words::Label>, Point)| {
            let value = self.unit(&words::value(&self.reading.column, point));
            self.named(&words::names(labels), &value)
        };
        let parts: Vec<String> = groups.iter().map(part).collect();
        format!("{place} {}", parts.join(", "))
    }

    fn place(&mut self, point: &Point) -> String {
        words::at(&self.reading.noun, point, !std::mem::replace(&mut self.place_said, true))
    }

    /// A value with the unit that only the phrase knows, once.
    fn unit(&self, value: &str) -> String {
        match &self.phrase {
            Some(phrase) if !self.said => words::with_unit(value, phrase.unit),
            _ => value.to_owned(),
        }
    }

    fn named(&mut self, name: &str, values: &str) -> String {
        let verb = match (&self.phrase, std::mem::replace(&mut self.said, true)) {
            (Some(phrase), false) => phrase.verb,
            (Some(phrase), true) => phrase.again,
            (None, _) if name.is_empty() => return values.to_owned(),
            (None, _) => return format!("{values} ({name})"),
        };
        match verb.is_empty() {
            true if name.ends_with(|c: char| c.is_ascii_digit()) => format!("{name}: {values}"),
            true => format!("{name} {values}"),
            false => format!("{name} {verb} {values}"),
        }
    }
}

/// The ends of the axis, and the bend between, if every course has a point there.
fn common_places(courses: &[&Series], bend: Option<f64>) -> Vec<f64> {
    let everywhere = |x: &f64| courses.iter().all(|course| course.points.iter().any(|point| point.x == *x));
    let Some([first, .., last]) = courses.first().map(|course| &course.points[..]) else { return Vec::new() };
    let mut places = vec![first.x];
    places.extend(bend.filter(|x| first.x < *x && *x < last.x));
    places.push(last.x);
    if places.iter().all(everywhere) { places } else { Vec::new() }
}

/// Where the course that changes most bends most: farthest from the straight line between its ends.
fn bend_of(reading: &Reading) -> Option<f64> {
    let spread = |course: &&Series| {
        let (low, high) = course.span();
        ratio(low, high)
    };
    let courses = reading.courses.iter().filter(|course| course.points.len() > 2 && !course.is_level(reading.level()));
    let most = courses.max_by(|a, b| spread(a).total_cmp(&spread(b)))?;
    let (first, last) = (most.points.first()?, most.points.last()?);
    let decades = most.points.iter().all(|point| point.least > 0.0) && spread(&most) > 10.0;
    let height = |point: &Point| if decades { point.least.ln() } else { point.least };
    let away = |point: &&Point| {
        let share = (point.x - first.x) / (last.x - first.x);
        (height(point) - height(first) - share * (height(last) - height(first))).abs()
    };
    let inner = &most.points[1..most.points.len() - 1];
    inner.iter().max_by(|a, b| away(a).total_cmp(&away(b))).map(|point| point.x)
}

/// The least and the most of all courses, at the ends of the axis.
fn extremes(reading: &Reading) -> Option<String> {
    let column = reading.column.as_str();
    let places = || reading.courses.iter().flat_map(|course| &course.points).map(|point| point.x);
    let low = places().min_by(f64::total_cmp)?;
    let high = places().max_by(f64::total_cmp)?;
    let unit = phrase(reading).map_or("", |phrase| phrase.unit);
    let told = |x: f64, first: bool| {
        let here = || reading.courses.iter().filter_map(|c| Some((c, c.points.iter().find(|p| p.x == x)?)));
        let least = here().min_by(|a, b| a.1.least.total_cmp(&b.1.least))?;
        let most = here().max_by(|a, b| a.1.most.total_cmp(&b.1.most))?;
        let place =
            if reading.noun.is_empty() { String::new() } else { words::at(&reading.noun, least.1, first) + " " };
        let unit = if first { unit } else { "" };
        if ratio(least.1.least, most.1.most) <= reading.alike() {
            let alike = words::with_unit(&words::range(column, least.1.least, most.1.most), unit);
            return Some(format!("{place}{alike} each"));
        }
        let [from, to] = [(least.1.least, least.0), (most.1.most, most.0)]
            .map(|(value, course)| (words::exact(column, value), words::names(&course.labels[..1])));
        Some(format!("{place}from {} ({}) to {} ({})", words::with_unit(&from.0, unit), from.1, to.0, to.1))
    };
    let further = if low < high { told(high, false) } else { None };
    let parts: Vec<String> = told(low, true).into_iter().chain(further).collect();
    Some(format!("{} {}", words::title(column, &reading.title), parts.join("; ")))
}
