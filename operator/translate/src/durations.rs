//! Durations of GEP-2257: `1h30m`, `500ms`, `0s`.

use std::time::Duration;

/// Reads `([0-9]{1,5}(h|m|s|ms)){1,4}`; `None` for anything else.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    for _ in 0..4 {
        if rest.is_empty() {
            break;
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=5).contains(&digits) {
            return None;
        }
        let amount: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let (unit, length) = match rest.as_bytes() {
            [b'm', b's', ..] => (Duration::from_millis(1), 2),
            [b'h', ..] => (Duration::from_secs(3_600), 1),
            [b'm', ..] => (Duration::from_secs(60), 1),
            [b's', ..] => (Duration::from_secs(1), 1),
            _ => return None,
        };
        total += unit * u32::try_from(amount).ok()?;
        rest = &rest[length..];
    }
    (rest.is_empty() && !text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_grammar_has() {
        for (text, milliseconds) in [
            ("0s", 0),
            ("500ms", 500),
            ("1h30m", 5_400_000),
            ("1m1s1ms", 61_001),
            ("99999h", 359_996_400_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", "1", "s", "1.5s", "-1s", "100000s", "1h1h1h1h1h", "1us", "1s ", "1d"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
