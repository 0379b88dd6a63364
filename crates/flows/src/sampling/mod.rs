//! For how many packets a sample stands, when some of the samples never came.
//!
//! An agent tells with each sample how many packets could have been chosen so far: the sample pool. What it grew by between
//! two samples that came is traffic, whether or not those between them were lost. So each sample stands for its share of the
//! pool's growth:
//!
//! ```text
//! weight = sum of growth / number of samples that came, both decayed by 1 - 1/128 a sample
//! ```
//!
//! A sample's weight multiplied by its frame length is bytes. Sums of weights follow the pool exactly but for what is not yet
//! handed out: a gap's growth is spread over the 128 samples behind it. What is decayed by samples and not by time gives each
//! sample the same part in every estimate, so that long gaps do not weigh more than short ones.
//!
//! Multiplying by the configured rate instead is biased by the loss: -30 % at 30 %.

mod discards;
mod edges;
mod sampler;
#[cfg(test)]
mod tests;

pub use discards::Discards;
pub use edges::Gaps;
pub use sampler::{Estimator, MEMORY, Sampler, Weight};
