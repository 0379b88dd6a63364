//! A file of sound, at its own rate: WAV, integers of 8 to 32 bits or floats.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hound::{SampleFormat, WavReader, WavSpec};
use weir_wire::signal::Rate;

use super::clocked::{Clocked, Due};
use super::{Next, Source};
use crate::station::board::{Board, Id, Opening};
use crate::station::settings::Source as Settings;

/// A file that is played.
pub(super) struct Wav {
    number: usize,
    settings: Settings,
    path: PathBuf,
    reader: WavReader<BufReader<File>>,
    repeat: bool,
    open: Option<(Clocked, Vec<Option<Id>>)>,
    /// Of each channel.
    parts: Vec<Vec<f64>>,
}

impl Wav {
    pub(super) fn open(number: usize, settings: &Settings, path: &Path, repeat: bool) -> Result<Self> {
        let reader = WavReader::open(path).with_context(|| format!("sound {}", path.display()))?;
        let WavSpec { channels, sample_rate, .. } = reader.spec();
        ensure!(
            (1..=1_000_000).contains(&sample_rate) && (1..=64).contains(&channels) && reader.duration() > 0,
            "sound {}: {channels} channels at {sample_rate}/s of {} samples",
            path.display(),
            reader.duration()
        );
        Ok(Self {
            number,
            settings: settings.clone(),
            path: path.to_owned(),
            reader,
            repeat,
            open: None,
            parts: vec![Vec::new(); channels.into()],
        })
    }

    fn start(&self, board: &mut Board) -> (Clocked, Vec<Option<Id>>) {
        let rate = Rate::hertz(self.reader.spec().sample_rate);
        let Settings { name, element, .. } = &self.settings;
        let mut open = |name: &str| {
            board.channel(&Opening {
                source: self.number,
                name,
                unit: "",
                description: "",
                rate,
                element: *element,
                origin: board.now.utc,
                own_times: false,
            })
        };
        let channels = match self.parts.len() {
            1 => vec![open(name)],
            several => (0..several).map(|channel| open(&format!("{name}{channel}"))).collect(),
        };
        (Clocked::new(rate, board.now.elapsed), channels)
    }

    /// Reads frames; fewer: the file is over.
    fn frames(&mut self, frames: u64) -> Result<u64> {
        self.parts.iter_mut().for_each(Vec::clear);
        let channels = self.parts.len();
        let mut read = 0;
        let mut put = |at: usize, value: f64| self.parts[at % channels].push(value);
        let most = frames as usize * channels;
        if self.reader.spec().sample_format == SampleFormat::Float {
            for sample in self.reader.samples::<f32>().take(most) {
                put(read, sample?.into());
                read += 1;
            }
        } else {
            for sample in self.reader.samples::<i32>().take(most) {
                put(read, sample?.into());
                read += 1;
            }
        }
        Ok((read / channels) as u64)
    }
}

impl Source for Wav {
    fn take(&mut self, board: &mut Board) -> Result<Next> {
        let (mut clocked, channels) = match self.open.take() {
            Some(open) => open,
            None => self.start(board),
        };
        let Due { missed, samples } = clocked.take(board.now.elapsed);
        for id in channels.iter().flatten().filter(|_| missed > 0) {
            board.skip(*id, missed);
        }
        let mut left = samples;
        while left > 0 {
            let read = self.frames(left).with_context(|| format!("sound {}", self.path.display()))?;
            for (id, part) in channels.iter().zip(&self.parts) {
                if let Some(id) = id {
                    board.samples(*id, &part[..read as usize]);
                }
            }
            left -= read;
            if left > 0 {
                if !self.repeat {
                    return Ok(Next::Over);
                }
                self.reader.seek(0)?;
            }
        }
        let next = clocked.due();
        self.open = Some((clocked, channels));
        Ok(Next::At(next))
    }
}
