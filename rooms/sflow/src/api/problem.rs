//! Why a request is not carried out, with the place for editors.

pub(crate) use weir_service::http::{Answer, JSON, Problem, json_response};

use super::analysis::Rejected;
use crate::thresholds::Refused;

impl From<Rejected> for Problem {
    fn from(rejected: Rejected) -> Self {
        let mut problem = Self::request(rejected.message);
        if let Some(key) = rejected.key {
            problem = problem.with("key", key);
        }
        if let Some((text, offset)) = rejected.place {
            let caret = caret(&text, offset);
            problem = problem.with("offset", offset).with("text", text).with("caret", caret);
        }
        problem
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        Self::request(refused.to_string())
    }
}

/// A line that, set below the text in type of one width, points at a byte of it.
fn caret(text: &str, offset: usize) -> String {
    let before = text.char_indices().take_while(|(at, _)| *at < offset).count();
    format!("{}^", " ".repeat(before))
}
