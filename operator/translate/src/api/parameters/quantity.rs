//! Amounts of CPU and memory as Kubernetes writes them, and when two of them are the same.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An amount: `2`, `500m` or `256Mi`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Quantity {
    /// A whole number.
    Number(i64),
    /// Any other.
    Text(String),
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// An amount in billionths, rounded up as the API server does. `None` for what is none, or is beyond all measure.
pub fn billionths(amount: &str) -> Option<i128> {
    let end = amount.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(amount.len());
    let (number, unit) = amount.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    let mantissa: i128 = digits.parse().ok()?;
    let places = u32::try_from(fraction.len()).ok()?;
    let decimal = |exponent: i32| Some((10_i128.checked_pow((exponent + 9).try_into().ok()?)?, 0));
    let binary = |power: u32| Some((10_i128.pow(9), 10 * power));
    let (factor, shift) = match unit {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => decimal(unit.strip_prefix(['e', 'E'])?.parse().ok()?),
    }?;
    let scaled = mantissa.checked_mul(factor)?.checked_mul(1 << shift)?;
    let divisor = 10_i128.checked_pow(places)?;
    Some(scaled / divisor + i128::from(scaled % divisor > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_amount_has_many_spellings() {
        for (one, other) in [
            ("1000m", "1"),
            ("1.50", "1500m"),
            (".5", "500m"),
            ("1024Mi", "1Gi"),
            ("1536.5Mi", "1573376Ki"),
            ("3e9", "3G"),
            ("1000", "1k"),
        ] {
            assert!(billionths(one).is_some() && billionths(one) == billionths(other), "{one} {other}");
        }
        assert_ne!(billionths("1M"), billionths("1Mi"));
        for none in ["", "much", "1x", "-1", "1e99", "1.2.3"] {
            assert_eq!(billionths(none), None, "{none}");
        }
    }
}
