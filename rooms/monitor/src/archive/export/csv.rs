//! Comma-separated values with a head line (RFC 4180).

use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::sync::Arc;

use anyhow::{Context, Result};

use super::Row;
use crate::archive::Head;

pub(super) struct Csv<W: Write> {
    output: BufWriter<W>,
    /// What is written next: at first the titles.
    line: String,
    /// The head whose columns are in `words` and `server`.
    head: Option<Arc<Head>>,
    words: String,
    server: String,
}

impl<W: Write> Csv<W> {
    pub(super) fn new(output: W) -> Self {
        let output = BufWriter::with_capacity(1 << 20, output);
        Self { output, line: TITLES.into(), head: None, words: String::new(), server: String::new() }
    }

    pub(super) fn rows(&mut self, head: &Arc<Head>, rows: &[Row]) -> Result<()> {
        if !self.head.as_ref().is_some_and(|known| Arc::ptr_eq(known, head)) {
            let words = [head.origin(), &head.stream, &head.channel.name, &head.channel.unit].map(quoted);
            self.words = format!("{},{:016x}", words.join(","), head.session);
            self.server = quoted(head.server());
            self.head = Some(head.clone());
        }
        for row in rows {
            let Row { time, index, value, envelope, samples, cause } = row;
            let (least, greatest) = envelope.unzip();
            let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
            let [value, least, greatest] = [*value, least, greatest].map(number);
            let cause = cause.map_or("", |cause| cause.name());
            let (words, server) = (&self.words, &self.server);
            // Writing to a string does not fail.
            let _ = writeln!(self.line, "{time},{words},{index},{value},{least},{greatest},{samples},{cause},{server}");
            self.output.write_all(self.line.as_bytes()).context("write the table")?;
            self.line.clear();
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.output.flush().context("write the table")
    }
}

/// In quotes where it must be; spreadsheets take what begins with `=`, `+`, `-` or `@` for a formula: it is made a text.
fn quoted(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text };
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

const TITLES: &str = "time,station,stream,channel,unit,session,index,value,least,greatest,samples,cause,server\n";
