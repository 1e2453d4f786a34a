//! Whether two keys are one, of values that were bound and of values that were read.

use mysql_async::Value;

/// A key in bytes: equal for equal keys, and in the order of integers and of texts byte by byte, so that
/// rows are written in the order in which they lie, and transactions lock them in one order.
pub(super) fn ident(values: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * 10);
    for value in values {
        match value {
            Value::NULL => bytes.push(0),
            Value::Int(number) => integer(&mut bytes, i128::from(*number)),
            Value::UInt(number) => integer(&mut bytes, i128::from(*number)),
            Value::Float(number) => integer(&mut bytes, i128::from(f64::from(*number).to_bits())),
            Value::Double(number) => integer(&mut bytes, i128::from(number.to_bits())),
            Value::Bytes(text) => {
                bytes.push(2);
                // Ended by what stands in no text so: one part does not run into the next.
                for byte in text {
                    bytes.push(*byte);
                    if *byte == 0 {
                        bytes.push(0xff);
                    }
                }
                bytes.extend([0, 0]);
            }
            Value::Date(year, month, day, hour, minute, second, micros) => {
                bytes.push(3);
                bytes.extend(year.to_be_bytes());
                bytes.extend([*month, *day, *hour, *minute, *second]);
                bytes.extend(micros.to_be_bytes());
            }
            Value::Time(negative, days, hours, minutes, seconds, micros) => {
                bytes.extend([4, u8::from(*negative)]);
                bytes.extend(days.to_be_bytes());
                bytes.extend([*hours, *minutes, *seconds]);
                bytes.extend(micros.to_be_bytes());
            }
        }
    }
    bytes
}

fn integer(bytes: &mut Vec<u8>, number: i128) {
    bytes.push(1);
    bytes.extend((number ^ i128::MIN).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_are_equal_and_parts_do_not_run_together() {
        let text = |text: &str| Value::Bytes(text.as_bytes().to_vec());
        assert_eq!(ident(&[Value::Int(7)]), ident(&[Value::UInt(7)]), "a number is one, whatever its sign may be");
        for (one, other) in [
            ([text("a"), text("bc")], [text("ab"), text("c")]),
            ([text("a\0"), text("")], [text("a"), text("\0")]),
            ([text("1"), text("")], [Value::Int(1), text("")]),
            ([text("a "), text("")], [text("a"), text("")]),
        ] {
            assert_ne!(ident(&one), ident(&other));
        }
    }

    #[test]
    fn keys_are_in_the_order_of_numbers_and_of_texts() {
        let numbers = [Value::Int(i64::MIN), Value::Int(-1), Value::Int(0), Value::Int(300), Value::UInt(u64::MAX)];
        assert!(numbers.map(|number| ident(&[number])).is_sorted());
        let texts = ["", "a", "a\0", "aa", "b"].map(|text| ident(&[Value::Bytes(text.into())]));
        assert!(texts.is_sorted(), "{texts:?}");
    }
}
