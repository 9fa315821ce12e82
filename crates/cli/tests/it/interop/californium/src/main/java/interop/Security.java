package interop;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** What TLS is told, from PEM files. */
final class Security {
  private static final char[] NO_PASSWORD = new char[0];

  private Security() {}

  /** For a client that trusts these certificates. */
  static SSLContext trusting(Path file) throws GeneralSecurityException, IOException {
    KeyStore store = empty();
    store.setCertificateEntry("ca", certificate(file));
    TrustManagerFactory trust =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, trust.getTrustManagers(), null);
    return context;
  }

  /** For a server; its key is one of an elliptic curve. */
  static SSLContext identity(Path certificate, Path key)
      throws GeneralSecurityException, IOException {
    KeyStore store = empty();
    store.setKeyEntry("own", key(key), NO_PASSWORD, new Certificate[] {certificate(certificate)});
    KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    keys.init(store, NO_PASSWORD);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(keys.getKeyManagers(), null, null);
    return context;
  }

  /** A key of an elliptic curve. */
  static PrivateKey key(Path file) throws GeneralSecurityException, IOException {
    String text = Files.readString(file).replaceAll("-----[A-Z ]+-----|\\s", "");
    PKCS8EncodedKeySpec encoded = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(text));
    return KeyFactory.getInstance("EC").generatePrivate(encoded);
  }

  static X509Certificate certificate(Path file) throws GeneralSecurityException, IOException {
    try (InputStream stream = Files.newInputStream(file)) {
      CertificateFactory factory = CertificateFactory.getInstance("X.509");
      return (X509Certificate) factory.generateCertificate(stream);
    }
  }

  private static KeyStore empty() throws GeneralSecurityException, IOException {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    return store;
  }
}
