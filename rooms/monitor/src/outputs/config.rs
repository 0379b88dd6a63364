//! `[[output]]`, as a server's configuration has it.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use weir_program::config::Address;
use weir_units::Frequency;

use super::{Format, Output};

/// `[[output]]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Where it goes.
    pub to: Address,
    /// `plotjuggler` or `influx`.
    pub format: Name,
    /// Channels; `*` for any characters. `None`: all.
    pub channels: Option<Vec<String>>,
    /// Most points of a channel a second. `None`: 100.
    pub rate: Option<Frequency>,
}

/// A format by name.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Name {
    /// See [`Format::PlotJuggler`].
    PlotJuggler,
    /// See [`Format::Influx`].
    Influx,
}

impl Document {
    /// What it means.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    pub fn check(self) -> Result<Output, (&'static str, String)> {
        let Self { to: Address(to), format, channels, rate } = self;
        if to.port() == 0 || to.ip().is_unspecified() {
            return Err(("to", "nobody can be reached there (name an address and its port)".into()));
        }
        let most = rate.map_or(RATE, |rate| rate.micro_hertz as f64 / 1e6);
        if !(LEAST..=MOST).contains(&most) {
            return Err(("rate", format!("{} (it must be {LEAST}/s to {MOST}/s)", rate.unwrap_or_default())));
        }
        let format = match format {
            Name::PlotJuggler => Format::PlotJuggler,
            Name::Influx => Format::Influx,
        };
        Ok(Output { to, format, channels: channels.unwrap_or_default(), most })
    }
}

/// As a file says it, every default written out.
impl From<&Output> for Document {
    fn from(output: &Output) -> Self {
        let Output { to, format, channels, most } = output;
        let to: SocketAddr = *to;
        Self {
            to: Address(to),
            format: match format {
                Format::PlotJuggler => Name::PlotJuggler,
                Format::Influx => Name::Influx,
            },
            channels: (!channels.is_empty()).then(|| channels.clone()),
            rate: Some(Frequency { micro_hertz: (most * 1e6) as u64 }),
        }
    }
}

const RATE: f64 = 100.0;
const LEAST: f64 = 0.1;
const MOST: f64 = 10_000.0;
