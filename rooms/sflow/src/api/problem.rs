//! Why a request is not carried out, with the place for editors.

pub(crate) use weir_service::http::{Answer, JSON, Problem, json_response};

use crate::flows::Mistake;
use crate::shard::Refusal;

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Mistake(Mistake { attribute, text, syntax }) => {
                // A line that, set below the text in type of one width, points at a byte of it.
                let before = text.char_indices().take_while(|(at, _)| *at < syntax.at).count();
                let caret = format!("{}^", " ".repeat(before));
                let problem = Self::request(syntax.message).with("key", attribute).with("offset", syntax.at);
                problem.with("text", text).with("caret", caret)
            }
            other => Self::request(other.to_string()),
        }
    }
}
