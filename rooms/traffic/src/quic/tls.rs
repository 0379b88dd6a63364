//! The certificate of this process, and who trusts it.

use std::sync::{Arc, OnceLock};

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::TrafficError;

/// A self-signed certificate and its key.
#[derive(Debug)]
pub(super) struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Identity {
    /// That of this process: made at the first call, never stored.
    pub(super) fn of_process() -> Result<&'static Self, TrafficError> {
        static IDENTITY: OnceLock<Result<Identity, String>> = OnceLock::new();
        IDENTITY.get_or_init(|| Self::new().map_err(|error| error.to_string())).as_ref().map_err(refused)
    }

    /// A new one.
    pub(super) fn new() -> Result<Self, rcgen::Error> {
        let made = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])?;
        Ok(Self { certificate: made.cert.into(), key: made.signing_key.serialize_der().into() })
    }

    /// For an end that shows this certificate.
    pub(super) fn server(&self) -> Result<quinn::ServerConfig, TrafficError> {
        let key = PrivateKeyDer::Pkcs8(self.key.clone_key());
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(refused)?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)
            .map_err(refused)?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let config = QuicServerConfig::try_from(config).map_err(refused)?;
        Ok(quinn::ServerConfig::with_crypto(Arc::new(config)))
    }

    /// For an end that trusts this certificate only.
    pub(super) fn client(&self) -> Result<quinn::ClientConfig, TrafficError> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).map_err(refused)?;
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(refused)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = Resumption::disabled();
        let config = QuicClientConfig::try_from(config).map_err(refused)?;
        Ok(quinn::ClientConfig::new(Arc::new(config)))
    }
}

/// The name in the certificate.
pub(super) const SERVER_NAME: &str = "weir.invalid";

/// The application protocol (ALPN, RFC 7301).
const PROTOCOL: &[u8] = b"weir-probe";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn refused(error: impl std::fmt::Display) -> TrafficError {
    TrafficError::Tls(error.to_string())
}
