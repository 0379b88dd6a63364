//! What somebody asks of a sender.

use super::Malformed;
use super::field::{self, Fields, put};

/// What somebody asks of a sender, by a datagram to the address that it sends from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Metadata at once, not within the second.
    pub metadata: bool,
    /// How channels are to be sent from now on.
    pub wishes: Vec<Wish>,
}

/// How a channel is to be sent from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wish {
    /// The channel.
    pub channel: u16,
    /// Samples a bucket; 1: each sample; 0: none.
    pub bucket: u32,
}

impl Request {
    /// Reads what is behind the header of a request.
    ///
    /// # Errors
    /// A field that is cut or has another length than its key has; a wish in front of the first channel.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (mut request, mut channel) = (Self::default(), None);
        for field in Fields(bytes) {
            let field = field?;
            match field.key {
                field::WANT_METADATA => request.metadata = true,
                field::CHANNEL => channel = Some(field.u16()?),
                field::WANT_BUCKET => {
                    let channel = channel.ok_or(Malformed::Homeless(field.key))?;
                    request.wishes.push(Wish { channel, bucket: field.u32()? });
                }
                _ => {}
            }
        }
        Ok(request)
    }

    /// Appends it.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        if self.metadata {
            put(bytes, field::WANT_METADATA, []);
        }
        for wish in &self.wishes {
            put(bytes, field::CHANNEL, wish.channel.to_le_bytes());
            put(bytes, field::WANT_BUCKET, wish.bucket.to_le_bytes());
        }
    }
}
