//! Content formats (RFC 7252 12.3).

use core::fmt;

/// A CoAP content format: the number of a media type and content coding
/// (RFC 7252 12.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentFormat(pub u16);

/// The registered properties of a content format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentFormatDefinition {
    /// The number in Content-Format and Accept options.
    pub format: ContentFormat,
    /// The media type with its parameters.
    pub media_type: &'static str,
    /// The content coding; empty for identity.
    pub coding: &'static str,
    /// The document that defines the media type or registers the number.
    pub source: &'static str,
}

impl ContentFormat {
    /// Returns the format's entry in the table of assigned numbers, if there is one.
    pub fn definition(self) -> Option<&'static ContentFormatDefinition> {
        let rows = ContentFormatDefinition::ALL;
        let at = rows.binary_search_by_key(&self, |row| row.format).ok()?;
        rows.get(at)
    }

    /// Returns the media type with its parameters, or `None` for a number not in this table.
    pub fn media_type(self) -> Option<&'static str> {
        Some(self.definition()?.media_type)
    }

    /// Looks up a media type without content coding, such as `application/cbor`.
    ///
    /// Case is ignored, and so are blanks around the semicolons of parameters. A bare `text/plain`
    /// finds [`ContentFormat::TEXT_PLAIN`]: its default character set is a subset of UTF-8.
    pub fn by_media_type(media_type: &str) -> Option<Self> {
        if media_type.trim().eq_ignore_ascii_case("text/plain") {
            return Some(Self::TEXT_PLAIN);
        }
        let same = |row: &&ContentFormatDefinition| {
            let wanted = media_type.split(';').map(str::trim);
            let known = row.media_type.split(';').map(str::trim);
            row.coding.is_empty()
                && wanted.clone().count() == known.clone().count()
                && wanted.zip(known).all(|(a, b)| a.eq_ignore_ascii_case(b))
        };
        Some(ContentFormatDefinition::ALL.iter().find(same)?.format)
    }
}

impl fmt::Display for ContentFormat {
    /// Writes the media type, with ` @coding` when there is one, or the bare number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.definition() {
            Some(row) if row.coding.is_empty() => f.pad(row.media_type),
            Some(row) => write!(f, "{} @{}", row.media_type, row.coding),
            None => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Debug for ContentFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.media_type() {
            Some(media_type) => write!(f, "ContentFormat({} {media_type})", self.0),
            None => write!(f, "ContentFormat({})", self.0),
        }
    }
}

macro_rules! content_formats {
    ($($constant:ident = $number:literal, $media_type:literal, $coding:literal, $source:literal;)*)
    => {
        impl ContentFormat {
            $(
                #[doc = concat!("`", $media_type, "` ", $coding, " (", $source, ").")]
                pub const $constant: Self = Self($number);
            )*
        }

        impl ContentFormatDefinition {
            /// Every content format of the table, by ascending number.
            pub const ALL: &'static [Self] = &[$(Self {
                format: ContentFormat::$constant,
                media_type: $media_type,
                coding: $coding,
                source: $source,
            }),*];
        }
    };
}

content_formats! {
    TEXT_PLAIN = 0, "text/plain; charset=utf-8", "", "RFC 7252 12.3";
    COSE_ENCRYPT0 = 16, "application/cose; cose-type=\"cose-encrypt0\"", "", "RFC 9052";
    COSE_MAC0 = 17, "application/cose; cose-type=\"cose-mac0\"", "", "RFC 9052";
    COSE_SIGN1 = 18, "application/cose; cose-type=\"cose-sign1\"", "", "RFC 9052";
    ACE_CBOR = 19, "application/ace+cbor", "", "RFC 9200";
    IMAGE_GIF = 21, "image/gif", "", "IANA";
    IMAGE_JPEG = 22, "image/jpeg", "", "IANA";
    IMAGE_PNG = 23, "image/png", "", "IANA";
    LINK_FORMAT = 40, "application/link-format", "", "RFC 6690";
    XML = 41, "application/xml", "", "RFC 7252 12.3";
    OCTET_STREAM = 42, "application/octet-stream", "", "RFC 7252 12.3";
    EXI = 47, "application/exi", "", "RFC 7252 12.3";
    JSON = 50, "application/json", "", "RFC 7252 12.3";
    JSON_PATCH = 51, "application/json-patch+json", "", "RFC 8132 6";
    MERGE_PATCH = 52, "application/merge-patch+json", "", "RFC 8132 6";
    CBOR = 60, "application/cbor", "", "RFC 8949 9.4";
    CWT = 61, "application/cwt", "", "RFC 8392";
    MULTIPART_CORE = 62, "application/multipart-core", "", "RFC 8710";
    CBOR_SEQ = 63, "application/cbor-seq", "", "RFC 8742";
    EDHOC_CBOR_SEQ = 64, "application/edhoc+cbor-seq", "", "RFC 9528";
    CID_EDHOC_CBOR_SEQ = 65, "application/cid-edhoc+cbor-seq", "", "RFC 9528";
    COSE_ENCRYPT = 96, "application/cose; cose-type=\"cose-encrypt\"", "", "RFC 9052";
    COSE_MAC = 97, "application/cose; cose-type=\"cose-mac\"", "", "RFC 9052";
    COSE_SIGN = 98, "application/cose; cose-type=\"cose-sign\"", "", "RFC 9052";
    COSE_KEY = 101, "application/cose-key", "", "RFC 9052";
    COSE_KEY_SET = 102, "application/cose-key-set", "", "RFC 9052";
    SENML_JSON = 110, "application/senml+json", "", "RFC 8428";
    SENSML_JSON = 111, "application/sensml+json", "", "RFC 8428";
    SENML_CBOR = 112, "application/senml+cbor", "", "RFC 8428";
    SENSML_CBOR = 113, "application/sensml+cbor", "", "RFC 8428";
    SENML_EXI = 114, "application/senml-exi", "", "RFC 8428";
    SENSML_EXI = 115, "application/sensml-exi", "", "RFC 8428";
    YANG_DATA_CBOR_SID = 140, "application/yang-data+cbor; id=sid", "", "RFC 9254";
    COAP_GROUP_JSON = 256, "application/coap-group+json", "", "RFC 7390";
    PROBLEM_DETAILS = 257, "application/concise-problem-details+cbor", "", "RFC 9290";
    SWID_CBOR = 258, "application/swid+cbor", "", "RFC 9393";
    DOTS_CBOR = 271, "application/dots+cbor", "", "RFC 9132";
    MISSING_BLOCKS = 272, "application/missing-blocks+cbor-seq", "", "RFC 9177 5";
    PKCS7_SERVER_GENERATED_KEY = 280, "application/pkcs7-mime; smime-type=server-generated-key", "",
        "RFC 9148";
    PKCS7_CERTS_ONLY = 281, "application/pkcs7-mime; smime-type=certs-only", "", "RFC 9148";
    PKCS8 = 284, "application/pkcs8", "", "RFC 9148";
    CSRATTRS = 285, "application/csrattrs", "", "RFC 9148";
    PKCS10 = 286, "application/pkcs10", "", "RFC 9148";
    PKIX_CERT = 287, "application/pkix-cert", "", "RFC 9148";
    AIF_CBOR = 290, "application/aif+cbor", "", "RFC 9237";
    AIF_JSON = 291, "application/aif+json", "", "RFC 9237";
    SENML_XML = 310, "application/senml+xml", "", "RFC 8428";
    SENSML_XML = 311, "application/sensml+xml", "", "RFC 8428";
    SENML_ETCH_JSON = 320, "application/senml-etch+json", "", "RFC 8790";
    SENML_ETCH_CBOR = 322, "application/senml-etch+cbor", "", "RFC 8790";
    YANG_DATA_CBOR = 340, "application/yang-data+cbor", "", "RFC 9254";
    YANG_DATA_CBOR_NAME = 341, "application/yang-data+cbor; id=name", "", "RFC 9254";
    TD_JSON = 432, "application/td+json", "", "W3C Web of Things Thing Description";
    OCF_CBOR = 10000, "application/vnd.ocf+cbor", "", "Open Connectivity Foundation";
    OSCORE = 10001, "application/oscore", "", "RFC 8613";
    JAVASCRIPT = 10002, "application/javascript", "", "RFC 4329";
    JSON_DEFLATE = 11050, "application/json", "deflate", "RFC 8259";
    CBOR_DEFLATE = 11060, "application/cbor", "deflate", "RFC 8949";
    LWM2M_TLV = 11542, "application/vnd.oma.lwm2m+tlv", "", "OMA LwM2M 1.0";
    LWM2M_JSON = 11543, "application/vnd.oma.lwm2m+json", "", "OMA LwM2M 1.0";
    LWM2M_CBOR = 11544, "application/vnd.oma.lwm2m+cbor", "", "OMA LwM2M 1.2";
    TEXT_CSS = 20000, "text/css", "", "RFC 2318";
    IMAGE_SVG = 30000, "image/svg+xml", "", "W3C SVG";
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn content_formats_are_sorted_and_found_both_ways() {
        assert!(ContentFormatDefinition::ALL.is_sorted_by(|a, b| a.format < b.format));
        for row in ContentFormatDefinition::ALL {
            assert_eq!(row.format.definition(), Some(row));
            if row.coding.is_empty() {
                assert_eq!(
                    ContentFormat::by_media_type(row.media_type),
                    Some(row.format)
                );
            }
        }
        assert_eq!(ContentFormat(1).definition(), None);
    }

    #[test]
    fn media_types_are_matched_without_regard_to_case_and_blanks() {
        let find = ContentFormat::by_media_type;
        assert_eq!(find("Application/CBOR"), Some(ContentFormat::CBOR));
        assert_eq!(
            find("text/plain;charset=UTF-8"),
            Some(ContentFormat::TEXT_PLAIN)
        );
        assert_eq!(find("text/plain"), Some(ContentFormat::TEXT_PLAIN));
        assert_eq!(find("text/plain; charset=latin1"), None);
        assert_eq!(find("application/cbor; x=y"), None);
        assert_eq!(
            ContentFormat::JSON_DEFLATE.to_string(),
            "application/json @deflate"
        );
        assert_eq!(ContentFormat(7).to_string(), "7");
    }
}
