//! The ground of rooms' HTTP: connections that are bounded, a guard against strangers' pages, places for those who wait, and the page.

mod frames;
mod guard;
mod page;
mod places;
mod server;

pub use frames::{event, events, frames};
pub use guard::{Purpose, Refused, Settings};
pub use page::{Built, Page, is_wanted};
pub use places::{Full, Held, Place, Places};
pub use server::{Ended, Error, Limits, Server, Serving};
