//! The JSON that a program prints and answers.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::Value;
use weir_program::clock::{self, Nanos};

/// The last lines of a standard output.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: VecDeque<(Nanos, String)>,
    bytes: usize,
    /// Lines that were dropped because of the limit.
    pub(super) dropped: u64,
    /// Lines that begin like an object but are not JSON.
    pub(super) broken: u64,
}

impl Lines {
    /// Reads to the end.
    pub(crate) fn read(stdout: impl Read) -> Lines {
        let (mut reader, mut all) = (BufReader::new(stdout), Lines::default());
        let mut line = Vec::new();
        // Lines read before an error count.
        while reader.by_ref().take(MAX_BYTES as u64).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            all.add(clock::now(), String::from_utf8_lossy(&line).trim_end().to_owned());
            line.clear();
        }
        all
    }

    fn add(&mut self, at: Nanos, line: String) {
        let is_object = line.starts_with('{') && line.ends_with('}');
        self.broken += u64::from(is_object && serde_json::from_str::<IgnoredAny>(&line).is_err());
        self.bytes += line.len();
        self.lines.push_back((at, line));
        while self.bytes > MAX_BYTES && self.lines.len() > 1 {
            self.bytes -= self.lines.pop_front().map_or(0, |(_, line)| line.len());
            self.dropped += 1;
        }
    }

    /// The last printed object, on one or several lines, whatever text follows it. If it was cut, the one before.
    pub(crate) fn last_object(&self) -> Option<Value> {
        self.beginnings().rev().take(2).find_map(|index| self.object_from(index))
    }

    /// The first printed object.
    pub(crate) fn first_object(&self) -> Option<Value> {
        self.object_from(self.beginnings().next()?)
    }

    /// The lines that begin with a brace.
    fn beginnings(&self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.lines.len()).filter(|&index| self.lines[index].1.starts_with('{'))
    }

    fn object_from(&self, index: usize) -> Option<Value> {
        let text = self.lines.range(index..).map(|(_, line)| &**line).collect::<Vec<_>>().join("\n");
        serde_json::Deserializer::from_str(&text).into_iter().next()?.ok()
    }

    /// The last line that is not blank.
    pub(crate) fn last_words(&self) -> &str {
        let lines = self.lines.iter().rev().map(|(_, line)| &**line);
        lines.into_iter().find(|line| !line.trim().is_empty()).unwrap_or_default()
    }

    /// Why this standard output has no object. `stderr`: the program's standard error.
    pub(crate) fn why_no_object(&self, stderr: &Lines) -> String {
        match self.lines.iter().find(|(_, line)| !line.is_empty()) {
            Some((_, line)) => {
                let begin: String = line.chars().take(SHOWN).collect();
                format!("printed no JSON object: no line begins with a brace, the first is {begin:?}")
            }
            None if stderr.last_object().is_some() => "printed JSON on standard error, not on standard output".into(),
            None => "printed nothing on standard output".into(),
        }
    }

    /// Every line that is an object, with its time in seconds after `begin`.
    pub(crate) fn objects(&self, begin: Nanos) -> Vec<(f64, Value)> {
        let object = |(at, line): &(Nanos, String)| {
            let value: Value = serde_json::from_str(line).ok().filter(Value::is_object)?;
            Some((since(begin, *at), value))
        };
        self.lines.iter().filter_map(object).collect()
    }
}

/// Seconds from one time to another, which may be earlier.
pub(super) fn since(begin: Nanos, at: Nanos) -> f64 {
    (at as f64 - begin as f64) / 1e9
}

/// Host and port, and path, of an address `http://10.0.0.1:8008/path`.
pub(crate) fn parts(address: &str) -> Option<(SocketAddr, &str)> {
    let rest = address.strip_prefix("http://")?;
    let (server, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some((server.parse().ok()?, if path.is_empty() { "/" } else { path }))
}

/// The JSON at an address.
pub(super) fn get(server: SocketAddr, path: &str, patience: Duration) -> io::Result<Value> {
    let mut stream = TcpStream::connect_timeout(&server, patience)?;
    stream.set_read_timeout(Some(patience))?;
    // With version 1.0 an answer ends with its connection and is not split into chunks.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {server}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_BYTES as u64).read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    let (head, body) = answer.split_at(head);
    let status = head.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
    if status != b"200" {
        return Err(io::Error::other(format!("HTTP status {}", String::from_utf8_lossy(status))));
    }
    serde_json::from_slice(body).map_err(|error| io::Error::other(format!("not JSON: {error}")))
}

/// Max characters of an unexpected line in an error.
const SHOWN: usize = 40;

/// Max lines kept: 100,000 samples in the format of sfacctd.
const MAX_BYTES: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_object_may_have_several_lines() {
        let read = |text: &str| Lines::read(text.as_bytes()).last_object().map(|value| value.to_string());
        assert_eq!(read("{\"a\":1}\n{\"a\":2}\n").as_deref(), Some("{\"a\":2}"));
        assert_eq!(read("ready\n{\n  \"a\": {\n    \"b\": 3\n  }\n}\n").as_deref(), Some("{\"a\":{\"b\":3}}"));
        assert_eq!(read("{\"a\":1}\nbye\n").as_deref(), Some("{\"a\":1}"));
        assert_eq!(read("{\"a\":1}\n{\"a\":2").as_deref(), Some("{\"a\":1}"), "cut by a kill");
        assert_eq!((read("ready\n"), read("")), (None, None));
        let why = |out: &str, err: &str| Lines::read(out.as_bytes()).why_no_object(&Lines::read(err.as_bytes()));
        assert_eq!(
            (&*why("", ""), &*why("", "no")),
            ("printed nothing on standard output", "printed nothing on standard output")
        );
        assert_eq!(why("", "{\"a\":1}"), "printed JSON on standard error, not on standard output");
        let first = |line| format!("printed no JSON object: no line begins with a brace, the first is {line:?}");
        assert_eq!(why("INFO {\"a\":1}\n", ""), first("INFO {\"a\":1}"));
        assert_eq!(why("\u{feff}{\"a\":1}\n", ""), first("\u{feff}{\"a\":1}"), "a byte order mark");
    }

    #[test]
    fn lines_are_bounded_and_what_is_above_the_bound_is_counted() {
        let mut lines = Lines::default();
        for number in 0..5 {
            lines.add(number, format!("{{\"n\":{number}}}{}", " ".repeat(MAX_BYTES / 2 - 7)));
        }
        assert_eq!((lines.dropped, lines.objects(0).len(), lines.broken), (3, 2, 0));
        assert_eq!(Lines::read(&b"{\"n\":1}\n{\"n\":NaN}\n"[..]).broken, 1);
    }

    #[test]
    fn an_address_has_parts() {
        let server = "10.0.0.1:8008".parse().unwrap();
        assert_eq!(parts("http://10.0.0.1:8008/a/b?c=1"), Some((server, "/a/b?c=1")));
        assert_eq!(parts("http://10.0.0.1:8008"), Some((server, "/")));
        assert_eq!((parts("https://10.0.0.1:8008"), parts("http://host/")), (None, None));
    }
}
