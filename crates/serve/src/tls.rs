//! Encryption of connections.

use std::path::Path;
use std::sync::Arc;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use crate::error::{Error, Result};
use crate::policy::Tls;

/// What clients that negotiate TLS at once must ask for.
const PROTOCOL: &[u8] = b"postgresql";

/// Reads the certificate and its key. A service that cannot is not started: it would go on in the clear.
pub fn acceptor(tls: &Tls) -> Result<TlsAcceptor> {
    let certificates = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| unreadable("tls_certificate", &tls.certificate, &error))?;
    if certificates.is_empty() {
        return Err(unreadable(
            "tls_certificate",
            &tls.certificate,
            &"there is no certificate in it",
        ));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key)
        .map_err(|error| unreadable("tls_key", &tls.key, &error))?;
    let wrong = |error: tokio_rustls::rustls::Error| Error::setup(format!("server: TLS: {error}"));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(wrong)?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(wrong)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn unreadable(setting: &str, path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::setup(format!("server: {setting}: cannot read {}: {why}", path.display()))
}
