//! What belongs to one Gateway alone, and whether any of it is in some bytes.

use std::collections::BTreeSet;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use rcgen::CertifiedKey;

use crate::cluster::Error;

/// A Gateway's certificate and words that stand in none of the other's objects.
pub struct Canary {
    /// The certificate in PEM.
    pub chain: String,
    /// Its private key in PEM.
    pub key: String,
    /// Names and values.
    pub words: Vec<String>,
    ders: [Vec<u8>; 2],
}

/// Bytes that are looked for as one: as few as say something.
const PART: usize = 16;

impl Canary {
    /// A new certificate for a hostname.
    pub fn new(hostname: &str, words: Vec<String>) -> Result<Self, Error> {
        let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed([hostname.to_owned()])?;
        let ders = [cert.der().to_vec(), signing_key.serialize_der()];
        Ok(Self { chain: cert.pem(), key: signing_key.serialize_pem(), words, ders })
    }

    /// All that the other does not have: words, PEM, and DER as such and in hexadecimal digits.
    fn parts(&self, other: &Self) -> BTreeSet<Vec<u8>> {
        let mut parts: BTreeSet<Vec<u8>> = self.words.iter().map(|word| word.clone().into_bytes()).collect();
        let windows = |bytes: &[u8]| Vec::from_iter(bytes.windows(PART).map(<[u8]>::to_vec));
        for (pem, theirs) in [(&self.chain, &other.chain), (&self.key, &other.key)] {
            let all = pem.lines().flat_map(|line| windows(line.as_bytes()));
            parts.extend(all.filter(|part| !contains(theirs.as_bytes(), part)));
        }
        for (der, theirs) in self.ders.iter().zip(&other.ders) {
            let own: Vec<_> = windows(der).into_iter().filter(|part| !contains(theirs, part)).collect();
            parts.extend(
                own.iter()
                    .map(|part| part.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()),
            );
            parts.extend(own);
        }
        parts
    }

    /// How many parts of this are in what was sent, in any form.
    pub fn found(&self, other: &Self, sent: &[u8]) -> usize {
        let decoded = decoded(sent);
        self.parts(other).iter().filter(|part| contains(sent, part) || contains(&decoded, part)).count()
    }

    /// Whether all words, all of the PEM and all of the DER are in what was sent: that the search finds what is there.
    pub fn is_whole(&self, sent: &[u8]) -> bool {
        let decoded = decoded(sent);
        self.words.iter().all(|word| contains(sent, word.as_bytes()))
            && self.chain.lines().chain(self.key.lines()).all(|line| contains(sent, line.as_bytes()))
            && self.ders.iter().all(|der| contains(&decoded, der))
    }
}

/// Everything in it that can be read as Base64, decoded, whichever of the four places of a group it begins at.
fn decoded(sent: &[u8]) -> Vec<u8> {
    let lenient = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let engine = GeneralPurpose::new(&STANDARD, lenient);
    let text: String = sent.iter().map(|byte| char::from(*byte)).collect();
    // Line ends as JSON writes them.
    let text = text.replace("\\n", "");
    let runs = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '+' || c == '/'));
    let mut all = Vec::new();
    for run in runs.filter(|run| run.len() >= 2 * PART) {
        for start in 0..4 {
            let run = &run[start..];
            // No group has one character alone.
            let run = if run.len() % 4 == 1 { &run[..run.len() - 1] } else { run };
            all.extend(engine.decode(run).unwrap_or_default());
            all.push(0);
        }
    }
    all
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
