package interop;

import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.cert.X509Certificate;
import org.eclipse.californium.elements.config.CertificateAuthenticationMode;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.scandium.DTLSConnector;
import org.eclipse.californium.scandium.config.DtlsConfig;
import org.eclipse.californium.scandium.config.DtlsConfig.DtlsRole;
import org.eclipse.californium.scandium.config.DtlsConnectorConfig;
import org.eclipse.californium.scandium.dtls.CertificateType;
import org.eclipse.californium.scandium.dtls.cipher.CipherSuite;
import org.eclipse.californium.scandium.dtls.pskstore.AdvancedSinglePskStore;
import org.eclipse.californium.scandium.dtls.x509.SingleCertificateProvider;
import org.eclipse.californium.scandium.dtls.x509.StaticNewAdvancedCertificateVerifier;

/** What DTLS is told: a key for an identity, or certificates. */
final class Dtls {
  private String psk;
  private Path certificate;
  private Path key;
  private Path trusted;

  /** Takes an option, if it is one of these; IDENTITY:KEY, or files in PEM. */
  boolean take(String option, String value) {
    switch (option) {
      case "--psk" -> psk = value;
      case "--cert" -> certificate = Path.of(value);
      case "--key" -> key = Path.of(value);
      case "--ca", "--client-ca" -> trusted = Path.of(value);
      default -> {
        return false;
      }
    }
    return true;
  }

  /** For a server at this address, or without one for a client. */
  DTLSConnector connector(InetSocketAddress address, Configuration configuration)
      throws Exception {
    // Whoever trusts somebody wants to see a certificate of the other.
    CertificateAuthenticationMode others =
        trusted == null ? CertificateAuthenticationMode.NONE : CertificateAuthenticationMode.NEEDED;
    configuration.set(DtlsConfig.DTLS_CLIENT_AUTHENTICATION_MODE, others);
    DtlsConnectorConfig.Builder builder = DtlsConnectorConfig.builder(configuration);
    if (address != null) {
      builder.setAddress(address);
    }
    if (psk != null) {
      String[] parts = psk.split(":", 2);
      byte[] secret = parts[1].getBytes(StandardCharsets.UTF_8);
      builder.setAdvancedPskStore(new AdvancedSinglePskStore(parts[0], secret));
    }
    if (certificate != null) {
      X509Certificate[] chain = {Security.certificate(certificate)};
      builder.setCertificateIdentityProvider(
          new SingleCertificateProvider(Security.key(key), chain, CertificateType.X_509));
    }
    if (psk == null && certificate == null) {
      // From what one has, the library infers its suites.
      builder.set(DtlsConfig.DTLS_ROLE, DtlsRole.CLIENT_ONLY);
      builder.setAsList(
          DtlsConfig.DTLS_CIPHER_SUITES, CipherSuite.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256);
    }
    if (trusted != null) {
      builder.setAdvancedCertificateVerifier(
          StaticNewAdvancedCertificateVerifier.builder()
              .setTrustedCertificates(Security.certificate(trusted))
              .build());
    }
    return new DTLSConnector(builder.build());
  }
}
