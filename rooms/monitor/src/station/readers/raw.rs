//! Bare numbers: little-endian frames with a value of each channel, one behind another.

use weir_wire::signal::Element;

/// The channels of a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw {
    /// Their names.
    pub names: Vec<String>,
    /// What their values are.
    pub element: Element,
}

impl Raw {
    /// Bytes of a frame.
    pub fn size(&self) -> usize {
        self.names.len() * self.element.size()
    }

    /// Bytes of all whole frames; `None`: there is none.
    pub(super) fn frame(&self, bytes: &[u8]) -> Option<usize> {
        let length = bytes.len() / self.size() * self.size();
        (length > 0).then_some(length)
    }

    /// The values of a channel, the so-manieth, in whole frames.
    pub fn column(&self, channel: usize, frames: &[u8]) -> impl Iterator<Item = f64> {
        let values = frames.len() / self.element.size();
        (channel..values).step_by(self.names.len()).map(|at| self.element.read(frames, at))
    }
}
