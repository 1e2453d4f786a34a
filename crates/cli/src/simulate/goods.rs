//! Made-up rows: names, numbers, texts with everything in them that a quoting mistake would break.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use crate::database::Engine;
use crate::simulate::cell::Cell;

const NAMES: [&str; 8] =
    ["Ada Grün", "Bo O'Hara", "Chloé \"Clo\" Roy", "D. \\ Backslash", "Емил", "藤田 花", "Zoë 🛒", "Tab\tand\nline"];
const CITIES: [&str; 6] = ["Bonn", "Köln", "Łódź", "São Paulo", "東京", "L'Aquila"];
const COLOURS: [&str; 3] = ["red", "green", "blue"];
/// The states of an order.
pub(crate) const STATUSES: [&str; 5] = ["new", "paid", "packed", "shipped", "closed"];

/// 2024-01-01, in microseconds since 1970.
const FIRST_MOMENT: i64 = 1_704_067_200_000_000;
const DAY_MICROS: i64 = 86_400_000_000;

/// The source of everything that is random.
pub(crate) struct Goods {
    pub(crate) random: Xoshiro256PlusPlus,
    /// Rows stamped so far: the shop's own clock, because that of the machine is no function of the seed.
    ticks: i64,
}

impl Goods {
    pub(crate) fn new(random: Xoshiro256PlusPlus) -> Self {
        Self { random, ticks: 0 }
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    /// From `low` to `high`, both included.
    pub(crate) fn number(&mut self, low: i64, high: i64) -> i64 {
        self.random.random_range(low..=high)
    }

    pub(crate) fn one_of(&mut self, list: &[&str]) -> Cell {
        Cell::text(list[self.random.random_range(0..list.len())])
    }

    /// An amount of money, negative now and then.
    pub(crate) fn money(&mut self) -> Cell {
        let units = self.number(-500, 1_000_000);
        Cell::decimal(units, 2)
    }

    /// The shop's clock, one step later.
    pub(crate) fn now(&mut self) -> Cell {
        self.ticks += 1;
        Cell::Moment(FIRST_MOMENT + self.ticks * 1_000_003)
    }

    fn moment(&mut self) -> i64 {
        FIRST_MOMENT + self.number(-20 * 365, 10 * 365) * DAY_MICROS + self.number(0, DAY_MICROS - 1)
    }

    /// A text of `length` characters that does not compress much.
    fn noise(&mut self, length: usize) -> String {
        let mut text = String::with_capacity(length + 16);
        while text.len() < length {
            text.push_str(&format!("{:016x}", self.random.random::<u64>()));
        }
        text.truncate(length);
        text
    }

    /// A text that PostgreSQL keeps beside the row.
    pub(crate) fn body(&mut self) -> Cell {
        let length = self.random.random_range(2_500..9_000);
        Cell::Text(self.noise(length))
    }

    pub(crate) fn name(&mut self) -> Cell {
        self.one_of(&NAMES)
    }

    pub(crate) fn customer(&mut self, id: i64) -> Vec<Cell> {
        let email = if self.chance(15) { Cell::Null } else { Cell::text(format!("c{id}@example.com")) };
        vec![Cell::Int(id), self.name(), email, self.one_of(&CITIES), self.money(), self.now()]
    }

    pub(crate) fn city(&mut self) -> Cell {
        self.one_of(&CITIES)
    }

    pub(crate) fn order(&mut self, id: i64, customer: i64) -> Vec<Cell> {
        let note = if self.chance(70) { Cell::Null } else { Cell::text("ring twice; 'leave' it at the \\door") };
        vec![Cell::Int(id), Cell::Int(customer), Cell::text("new"), self.money(), note, self.now()]
    }

    pub(crate) fn item(&mut self, order: i64, line: i64, sku: i64) -> Vec<Cell> {
        let quantity = self.number(1, 9);
        let price = self.number(1, 99_999);
        let sku = Cell::text(format!("SKU-{sku}"));
        vec![Cell::Int(order), Cell::Int(line), sku, Cell::Int(quantity), Cell::decimal(price, 2)]
    }

    pub(crate) fn document(&mut self, id: i64) -> Vec<Cell> {
        vec![Cell::Int(id), self.name(), self.body(), Cell::Int(0)]
    }

    pub(crate) fn visit(&mut self, customer: i64) -> Vec<Cell> {
        let page = self.number(1, 50);
        vec![Cell::Int(customer), Cell::text(format!("/p/{page}")), self.now()]
    }

    /// A row with a value, or NULL, in a column of every type.
    pub(crate) fn product(&mut self, id: i64, engine: Engine) -> Vec<Cell> {
        let mut row = vec![Cell::Int(id)];
        for column in 1..18 {
            let cell = if self.chance(20) { Cell::Null } else { self.product_cell(column, engine) };
            row.push(cell);
        }
        row
    }

    fn product_cell(&mut self, column: usize, engine: Engine) -> Cell {
        // Every border of a type comes up often.
        let border: u8 = self.random.random_range(0..6);
        match column {
            1 => self.name(),
            2 => Cell::text(["AB-1", "", "ÄÖ ", "12345678"][self.random.random_range(0..4)]),
            3 if engine == Engine::Postgres => Cell::Bool(border < 3),
            3 => Cell::Int(i64::from(border < 3)),
            4 => Cell::Int([i16::MIN, i16::MAX, 0, -1, 7, 300][usize::from(border)].into()),
            5 if engine == Engine::MySql => {
                Cell::Unsigned([u64::MAX, 1 << 63, 0, 1, 1 << 53, (1 << 53) + 1][usize::from(border)])
            }
            5 => Cell::Int([i64::MIN, i64::MAX, 0, -1, 1 << 53, (1 << 53) + 1][usize::from(border)]),
            6 => Cell::Number(match border {
                0 => "9999999999999999999999999999.9999999999".to_owned(),
                1 => "-0.0000000001".to_owned(),
                2 => "0".to_owned(),
                _ => format!("{}.{:010}", self.number(-999_999, 999_999), self.number(0, 9_999_999_999)),
            }),
            // Eighths are exact in both widths.
            7 | 8 => Cell::Number(format!("{}", f64::from(self.random.random_range(-80_000..80_000)) / 8.0)),
            9 => self.one_of(&COLOURS),
            10 => {
                let n = self.number(0, 99);
                Cell::text(format!("{{\"n\": {n}, \"tags\": [\"a\", \"b'c\"], \"none\": null}}"))
            }
            11 => {
                let length = self.random.random_range(0..32);
                Cell::Bytes((0..length).map(|_| self.random.random()).collect())
            }
            12 => {
                let (high, low) = (self.random.random::<u64>(), self.random.random::<u64>());
                let hex = format!("{high:016x}{low:016x}");
                let cut = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
                Cell::Text(cut.join("-"))
            }
            13 => Cell::Date(self.number(0, 30_000)),
            14 => Cell::Time(self.number(0, DAY_MICROS - 1)),
            15 => Cell::Moment(self.moment()),
            16 => Cell::Moment(self.moment() / 1_000 * 1_000),
            _ => Cell::Moment(self.moment()),
        }
    }
}
