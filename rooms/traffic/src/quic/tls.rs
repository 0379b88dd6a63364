//! The certificate of this process, and who trusts it.

use std::sync::{Arc, OnceLock};

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};

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
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
        client(builder.map_err(refused)?.with_root_certificates(roots).with_no_client_auth())
    }
}

/// For an end that takes any certificate.
pub(super) fn client_of_any() -> Result<quinn::ClientConfig, TrafficError> {
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
    let any = Arc::new(AnyCertificate(provider().signature_verification_algorithms));
    let builder = builder.map_err(refused)?.dangerous().with_custom_certificate_verifier(any);
    client(builder.with_no_client_auth())
}

fn client(mut config: ClientConfig) -> Result<quinn::ClientConfig, TrafficError> {
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    let config = QuicClientConfig::try_from(config).map_err(refused)?;
    Ok(quinn::ClientConfig::new(Arc::new(config)))
}

/// Takes any certificate: what is measured is no secret. That the peer has its key is looked at as ever, so that the
/// handshake costs what it costs.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
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
