//! What a scraper must know, where counts are not for everybody: a token in a file, for files have owners.

use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

/// A secret.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// That of the file which `WEIR_ADMIN_TOKEN_FILE` names; `None`: it is not set.
    ///
    /// # Errors
    /// The file cannot be read, or has no token.
    pub(crate) fn of_environment() -> Result<Option<Self>> {
        let Some(path) = env::var_os(VARIABLE) else { return Ok(None) };
        let path = Path::new(&path);
        let place = || format!("{VARIABLE}: {}", path.display());
        let text = fs::read_to_string(path).with_context(place)?;
        Self::parse(&text).with_context(place).map(Some)
    }

    /// The token of a file's text: its only line.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let token = text.trim();
        let is_token = (SHORTEST..=LONGEST).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
        ensure!(is_token, "no token: write {SHORTEST} to {LONGEST} printed characters (`openssl rand -hex 16`)");
        Ok(Self(token.to_owned()))
    }

    /// Whether a request names it (RFC 6750, section 2.1). How long that takes says nothing of it.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let named = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some((scheme, token)) = named.and_then(|value| value.split_once(' ')) else { return false };
        scheme.eq_ignore_ascii_case("bearer") && bool::from(token.trim().as_bytes().ct_eq(self.0.as_bytes()))
    }
}

/// Nobody reads it in a log.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

const VARIABLE: &str = "WEIR_ADMIN_TOKEN_FILE";

/// What nobody guesses, and what a header has room for.
const SHORTEST: usize = 16;
const LONGEST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_line_that_nobody_guesses() {
        assert!(Token::parse("0123456789abcdef\n").is_ok());
        for text in ["", "short", "0123456789 abcdef", "0123456789abcdef\nsecond", "0123456789abcde\u{e9}"] {
            let error = Token::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("no token: ") && !error.contains("0123"), "{error}");
        }
    }
}
