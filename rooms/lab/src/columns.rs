//! The columns that a scenario defines: expressions over measured values.
//!
//! `PROGRAM.path`: the last object that a program printed, `PROGRAM.lines.path`: all of them, `PROGRAM.poll.path`: its
//! answers; `link.NAME.forward.FIELD`: the emulator's ledger; `host.NAME.udp.InErrors`: the kernel's counters;
//! `run.FIELD`.

use std::slice;

use anyhow::{Result, anyhow, ensure};
use serde_json::Value;
use weir_emulator::model::Way;
use weir_kernel::counters::{self, Snmp};
use weir_kernel::namespaces::NetNs;
use weir_program::config::did_you_mean;
use weir_report::columns;
use weir_units::expression::Expression;

use crate::cell::Measured;
use crate::network::LinkReading;
use crate::programs::ProgramFacts;
use crate::scenario::Scenario;

/// Values by seconds from the start of the window; 0 for values without a time.
type Series = Vec<(f64, f64)>;

/// Measured values, or why there are none.
type Measurement = Result<Series, String>;

/// The meaning of a name. Error: no such name is possible.
type Look<'a> = dyn Fn(&str) -> Result<Measurement, String> + 'a;

/// The value of a column, or its values over time.
pub enum Own {
    /// A number.
    Value(f64),
    /// Why it was not measured, or is not a number.
    Empty(String),
    /// A timeline.
    Course(Series),
}

/// The scenario's columns for the row about a host, in order.
pub fn of_row(scenario: &Scenario, measured: &Measured<'_>, host: &str) -> Vec<(String, Own)> {
    let look = |name: &str| value(scenario, Some((measured, host)), name);
    let column = |(name, column): (&String, &crate::scenario::Column)| {
        let own = match evaluate(&column.value, &look).and_then(|measured| measured) {
            Err(why) => Own::Empty(why),
            Ok(course) if course.len() != 1 => Own::Course(course),
            Ok(value) if value[0].1.is_finite() => Own::Value(value[0].1),
            Ok(value) => Own::Empty(format!("its value is {}", value[0].1)),
        };
        (name.clone(), own)
    };
    scenario.columns.iter().map(column).collect()
}

/// Refuses invalid columns and unknown names.
pub fn check(scenario: &Scenario) -> Result<()> {
    for (name, column) in &scenario.columns {
        let taken = columns::COLUMNS.iter().chain(&columns::ADDED).any(|column| column.name == name);
        ensure!(!taken, "columns.{name}: there is a column of this name. Choose another one.");
        let look = |name: &str| value(scenario, None, name);
        let _ = evaluate(&column.value, &look).map_err(|message| anyhow!("columns.{name}.value: {message}"))?;
    }
    Ok(())
}

/// The meaning of a name in the row about a host, or why it cannot be measured.
fn value(scenario: &Scenario, row: Option<(&Measured<'_>, &str)>, name: &str) -> Result<Measurement, String> {
    let unknown = |what: &str, word: &str, all: &mut dyn Iterator<Item = &str>| {
        Err(format!("{name}: no {what} `{word}`{}", did_you_mean(word, all)))
    };
    let empty = || format!("{name} was not measured");
    let one = |value: Option<f64>| value.map(|value| vec![(0.0, value)]).ok_or_else(empty);
    let measured = row.map(|(measured, _)| measured);
    let parts: Vec<&str> = name.split('.').collect();
    Ok(match parts[..] {
        ["run", "duration_s"] => one(Some(scenario.run.duration.duration().as_secs_f64())),
        ["run", "drain_s"] => one(Some(scenario.run.drain.duration().as_secs_f64())),
        ["run", "begin_s"] => one(measured.map(|measured| measured.begin_unix_s)),
        ["run", field] => return unknown("field", field, &mut ["duration_s", "drain_s", "begin_s"].into_iter()),
        ["link", link, way @ ("forward" | "backward"), field] => {
            let Some(index) = scenario.links.keys().position(|known| known == link) else {
                return unknown("link", link, &mut scenario.links.keys().map(String::as_str));
            };
            let Some((_, of)) = LINK.iter().find(|(known, _)| *known == field) else {
                return unknown("field", field, &mut LINK.iter().map(|(known, _)| *known));
            };
            let way = if way == "forward" { Way::Forward } else { Way::Backward };
            one(measured.and_then(|measured| Some(of(&measured.links[index], way)? as f64)))
        }
        ["host", host, protocol, counter] => {
            if !scenario.hosts.contains_key(host) {
                return unknown("host", host, &mut scenario.hosts.keys().map(String::as_str));
            }
            let own = |kernel: &Snmp| -> Vec<(String, f64)> {
                let own = kernel.iter().filter(|(of, ..)| of.eq_ignore_ascii_case(protocol));
                own.map(|(_, name, count)| (name.to_owned(), count as f64)).collect()
            };
            let find = |own: &[(String, f64)]| own.iter().find(|(name, _)| name == counter).map(|(_, count)| *count);
            let Some(measured) = measured else {
                let kernel = NetNs::current().and_then(|ns| counters::snmp(&ns)).map_err(|error| error.to_string())?;
                let own = own(&kernel);
                return match find(&own) {
                    Some(_) => Ok(Err(empty())),
                    None => unknown("counter", counter, &mut own.iter().map(|(name, _)| &**name)),
                };
            };
            let node = measured.topology.node(host).ok().and_then(|node| measured.kernels[node].as_ref());
            one(node.and_then(|kernel| find(&own(kernel))))
        }
        [program, ref path @ ..] if !path.is_empty() && !["run", "link", "host"].contains(&program) => {
            if scenario.programs.iter().all(|known| known.name != program) {
                return unknown("program", program, &mut scenario.programs.iter().map(|known| &*known.name));
            }
            let Some((measured, host)) = row else { return Ok(Err(empty())) };
            // Of several instances, the one on the host of the row, if there is one.
            let all = measured.programs.get(program).map_or(&[][..], Vec::as_slice);
            let own = all.iter().find(|facts| facts.host == host).map_or(all, slice::from_ref);
            let all: Vec<Measurement> = own.iter().map(|facts| reported(facts, program, path)).collect();
            let why = all.iter().find_map(|one| one.as_ref().err().cloned());
            let series = all.into_iter().flatten().flatten().collect::<Series>();
            if series.is_empty() { Err(why.unwrap_or_else(empty)) } else { Ok(series) }
        }
        _ => {
            return Err(format!(
                "{name}: write run.FIELD, link.NAME.forward.FIELD, host.NAME.PROTOCOL.COUNTER, or PROGRAM.KEY"
            ));
        }
    })
}

/// The values that a program of this name reported at a path.
fn reported(facts: &ProgramFacts, name: &str, path: &[&str]) -> Measurement {
    let mut series = Series::new();
    let last: Vec<(f64, Value)> = facts.printed.iter().map(|value| (0.0, value.clone())).collect();
    let (reports, path, none) = match path {
        ["lines", path @ ..] => (&facts.lines, path, &*facts.unheard),
        ["poll", path @ ..] => (&facts.polled, path, "never answered its `poll` with JSON"),
        path => (&last, path, &*facts.unheard),
    };
    reports.iter().for_each(|(at, value)| numbers(value, path, *at, &mut series));
    // Without reports there is no sum and no count: a program without errors must print that they are 0.
    let Some((_, value)) = reports.last() else { return Err(format!("{name} on {} {none}", facts.host)) };
    let is_text = value.pointer(&format!("/{}", path.join("/"))).is_some_and(Value::is_string);
    let what = if is_text { "is a string, not a number," } else { "is not a number" };
    if series.is_empty() {
        let keys: Vec<&str> = value.as_object().into_iter().flatten().map(|(key, _)| &**key).take(KEYS).collect();
        let keys =
            if is_text || keys.is_empty() { String::new() } else { format!(": its keys are {}", keys.join(", ")) };
        Err(format!("`{}` {what} in what {name} on {} reported{keys}", path.join("."), facts.host))
    } else {
        Ok(series)
    }
}

/// The numbers at a path, including those of every element of a list.
fn numbers(value: &Value, path: &[&str], at: f64, to: &mut Series) {
    match (value, path) {
        (Value::Array(list), _) => list.iter().for_each(|value| numbers(value, path, at, to)),
        (Value::Object(object), [key, rest @ ..]) => {
            object.get(*key).into_iter().for_each(|value| numbers(value, rest, at, to));
        }
        (Value::Number(number), []) => to.extend(number.as_f64().map(|number| (at, number))),
        (Value::Bool(flag), []) => to.push((at, f64::from(u8::from(*flag)))),
        _ => {}
    }
}

/// Evaluates an expression, element by element. Results of series functions are referred to by number.
fn evaluate(text: &str, look: &Look<'_>) -> Result<Measurement, String> {
    let (mut plain, mut made, mut rest) = (String::new(), Vec::new(), text);
    while let Some(Call { before, function, arguments, after }) = next_call(rest)? {
        let arguments = arguments.into_iter().map(|argument| evaluate(argument, look));
        let arguments: Result<Vec<Series>, String> = arguments.collect::<Result<Vec<_>, _>>()?.into_iter().collect();
        plain += &format!("{before}{{#{}}}", made.len());
        made.push(arguments.and_then(|arguments| apply(function, &arguments)));
        rest = after;
    }
    plain += rest;
    let number = |name: &str| name.strip_prefix('#').and_then(|number| number.parse::<usize>().ok());
    let check = |name: &str| if number(name).is_some() { Ok(()) } else { look(name).map(drop) };
    let expression = Expression::parse(&plain, check).map_err(|error| error.message)?;
    let value = |name: &String| number(name).map_or_else(|| look(name), |number| Ok(made[number].clone()));
    let values = expression.names().iter().map(value).collect::<Result<Vec<_>, _>>()?;
    let values: Result<Vec<Series>, String> = values.into_iter().collect();
    let mut stack = Vec::new();
    Ok(values.and_then(|values| each(&values, |values| expression.evaluate(values, &mut stack))))
}

/// One value per element of series of equal length; a single value goes with each.
fn each(series: &[Series], mut of: impl FnMut(&[f64]) -> f64) -> Measurement {
    let length = series.iter().map(Vec::len).find(|length| *length != 1).unwrap_or(1);
    if series.iter().any(|series| series.len() != 1 && series.len() != length) {
        let lengths: Vec<String> = series.iter().map(|series| series.len().to_string()).collect();
        return Err(format!("its series have different lengths ({})", lengths.join(", ")));
    }
    let element = |index: usize| {
        let at = |series: &Series| series[if series.len() == 1 { 0 } else { index }];
        let time = series.iter().find(|series| series.len() == length).map_or(0.0, |series| series[index].0);
        (time, of(&series.iter().map(|series| at(series).1).collect::<Vec<_>>()))
    };
    Ok((0..length).map(element).collect())
}

fn apply(function: &str, arguments: &[Series]) -> Measurement {
    let series = &arguments[0];
    let mut sorted: Vec<f64> = series.iter().map(|(_, value)| *value).collect();
    sorted.sort_by(f64::total_cmp);
    let sum: f64 = sorted.iter().sum();
    let count = sorted.len() as f64;
    // The nearest rank.
    let quantile = |q: f64| sorted.get(((q * count).ceil() as usize).saturating_sub(1)).copied();
    let value = match function {
        "over" => {
            return each(arguments, |v| v[0])
                .map(|s| (0..).zip(s).map(|(i, (_, value))| (arguments[1][i].1, value)).collect());
        }
        "within" => return each(arguments, |v| f64::from(u8::from(v[0] <= v[2] && v[2] <= v[1]))),
        "sum" => Some(sum),
        "count" => Some(count),
        "mean" => (count > 0.0).then_some(sum / count),
        "min" => sorted.first().copied(),
        "max" => sorted.last().copied(),
        "p50" => quantile(0.5),
        "p99" => quantile(0.99),
        // Growth of a counter per second.
        _ => series.first().zip(series.last()).map(|((begin, first), (end, last))| (last - first) / (end - begin)),
    };
    let value = value.filter(|value| value.is_finite()).map(|value| vec![(0.0, value)]);
    value.ok_or_else(|| format!("`{function}` of {count} values is not a number"))
}

struct Call<'a> {
    before: &'a str,
    function: &'a str,
    arguments: Vec<&'a str>,
    after: &'a str,
}

/// The first call of a series function; `min` and `max` of two values are not.
fn next_call(text: &str) -> Result<Option<Call<'_>>, String> {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let word = &text[at..][..text[at..].find(|c: char| !is_name(c)).unwrap_or(text.len() - at)];
        let after_word = &text[at + word.len()..];
        if c == '{' {
            at += text[at..].find('}').map_or(text.len() - at, |end| end + 1);
        } else if word.is_empty() {
            at += c.len_utf8();
        } else {
            if FUNCTIONS.contains(&word)
                && let Some(inside) = after_word.trim_start().strip_prefix('(')
                && let Some((arguments, after)) = split_arguments(inside)
            {
                let (count, takes) = match word {
                    "within" => (3, "three values: low, high, value"),
                    "over" => (2, "two series: values, times in seconds"),
                    _ => (1, "one series"),
                };
                if arguments.len() == count {
                    return Ok(Some(Call { before: &text[..at], function: word, arguments, after }));
                }
                if !matches!(word, "min" | "max") {
                    return Err(format!("`{word}` takes {takes}"));
                }
            }
            at += word.len();
        }
    }
    Ok(None)
}

/// The arguments up to the closing parenthesis, and the rest.
fn split_arguments(inside: &str) -> Option<(Vec<&str>, &str)> {
    let (mut depth, mut begin, mut arguments) = (0, 0, Vec::new());
    for (at, c) in inside.char_indices() {
        match c {
            '(' | '{' => depth += 1,
            ')' if depth == 0 => {
                arguments.push(&inside[begin..at]);
                return Some((arguments, &inside[at + 1..]));
            }
            ')' | '}' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(&inside[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    None
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

/// Max keys of a report in a remark.
const KEYS: usize = 12;

const FUNCTIONS: [&str; 10] = ["sum", "mean", "min", "max", "count", "p50", "p99", "rate", "within", "over"];

type LinkField = fn(&LinkReading, Way) -> Option<u64>;

/// Fields of a link; without an emulator only frames are counted.
const LINK: [(&str, LinkField); 7] = [
    ("frames", |link, way| Some(link.nodes[way as usize].sent)),
    ("frames_delivered", |link, way| Some(link.nodes[1 - way as usize].received)),
    ("packets", |link, way| crate::account::report(link, way).map(|report| report.ledger.received)),
    ("delivered", |link, way| crate::account::report(link, way).map(|report| report.ledger.delivered)),
    ("lost", |link, way| crate::account::report(link, way).map(|report| report.ledger.lost)),
    ("queue_dropped", |link, way| crate::account::report(link, way).map(|report| report.ledger.queue_dropped)),
    ("duplicated", |link, way| crate::account::report(link, way).map(|report| report.ledger.duplicated)),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The value of an expression over what a program reported.
    fn value(text: &str) -> Result<Option<Vec<f64>>, String> {
        let line = |at: f64| (at, json!({ "low": at - 1.0, "high": at + 1.0, "n": 10.0 * at }));
        let facts = ProgramFacts {
            printed: Some(json!({ "streams": [{ "due": 3 }, { "due": 4, "late": true }], "shown": 6 })),
            polled: vec![line(1.0), line(2.0), line(4.0)],
            ..ProgramFacts::default()
        };
        let look = |name: &str| match name.split_once('.') {
            Some(("p", path)) => Ok(reported(&facts, "p", &path.split('.').collect::<Vec<_>>())),
            Some(("absent", _)) => Ok(Err("it is absent".into())),
            _ => Err(format!("there is no program `{name}`")),
        };
        evaluate(text, &look).map(|series| Some(series.ok()?.into_iter().map(|(_, value)| value).collect()))
    }

    #[test]
    fn functions_make_one_number_of_a_series() {
        for (text, expected) in [
            ("sum(p.streams.due) - p.shown", 1.0),
            ("mean(within(p.poll.low, p.poll.high, 2.5))", 1.0 / 3.0),
            ("mean(p.poll.n / 10)", 7.0 / 3.0),
            ("min(p.poll.n) + max(p.poll.n)", 50.0),
            ("max(min(p.poll.n), 11)", 11.0),
            ("count(p.poll.n)", 3.0),
            ("p50(p.poll.n) + p99(p.poll.n)", 60.0),
            ("rate(p.poll.n)", 10.0),
            ("sum({p.streams.late})", 1.0),
            ("2 * 3", 6.0),
            ("rate(over(p.poll.n, 2 * p.poll.high))", 5.0),
        ] {
            assert_eq!(value(text), Ok(Some(vec![expected])), "{text}");
        }
        assert_eq!(value("p.poll.n / 10"), Ok(Some(vec![1.0, 2.0, 4.0])), "a course");
    }

    #[test]
    fn what_was_not_measured_is_empty_and_what_is_misspelt_is_an_error() {
        for text in ["absent.x + 1", "sum(absent.x)", "p.shonw", "sum(p.poll.x)", "count(p.lines.any)"] {
            assert_eq!(value(text), Ok(None), "{text}");
        }
        let error = |text: &str| value(text).unwrap_err();
        assert_eq!(error("q.x"), "there is no program `q.x`");
        assert_eq!(error("sum(q.x)"), "there is no program `q.x`");
        assert_eq!(error("sum(p.x, 2)"), "`sum` takes one series");
        assert_eq!(error("within(1, 2)"), "`within` takes three values: low, high, value");
        assert_eq!(error("sum(1"), "no function `sum`");
        assert_eq!(error("1 +"), "a value is missing at the end");
        assert_eq!(value("p.streams.due + p.poll.n"), Ok(None), "not as long");
    }

    #[test]
    fn an_empty_value_has_a_reason() {
        let printed = json!({ "n": "12", "list": [] });
        let heard = ProgramFacts { host: "b".into(), printed: Some(printed), ..ProgramFacts::default() };
        let silent = ProgramFacts { host: "b".into(), unheard: "printed nothing".into(), ..ProgramFacts::default() };
        let why = |facts: &ProgramFacts, path: &[&str]| reported(facts, "p", path).unwrap_err();
        assert_eq!(why(&heard, &["n"]), "`n` is a string, not a number, in what p on b reported");
        assert_eq!(why(&heard, &["m"]), "`m` is not a number in what p on b reported: its keys are list, n");
        assert_eq!(why(&heard, &["poll", "n"]), "p on b never answered its `poll` with JSON");
        assert_eq!(why(&silent, &["n"]), "p on b printed nothing");
    }
}
