//! `weir monitor view`: signals on a terminal.
//!
//! ```text
//! History -> trace: of each chosen channel the least and greatest of each column, and what is missing in it
//!         -> picture: a table of all signals, curves of those chosen, gaps shaded
//! ```

mod count;
mod curve;
mod picture;
#[cfg(test)]
mod tests;
mod trace;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use weir_program::stop::Stop;
use weir_service::screen::{self, Ended};

use crate::api::Shown;
pub use count::{Counted, count};
pub use picture::Look;
use picture::Signals;

/// Shows what `shown` has, until somebody asks for the end or the stop is set; on anything but a terminal it prints lines.
///
/// # Errors
/// If standard output fails.
pub fn run(shown: Arc<dyn Shown>, look: Look, stop: &Stop) -> io::Result<Ended> {
    screen::run(&mut Signals::new(shown, look), FRAMES_APART, stop)
}

/// Ten pictures a second: a terminal across a network bears it.
const FRAMES_APART: Duration = Duration::from_millis(100);
