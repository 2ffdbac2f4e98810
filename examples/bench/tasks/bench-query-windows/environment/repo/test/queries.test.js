import assert from 'node:assert/strict';
import { test } from 'node:test';

import { rows, run } from './support.js';

test('columns are chosen, named and worked out', () => {
  const { columns, rows: found } = run("select id, amount * 2 as twice, upper(region) from sales where id < 3");
  assert.deepEqual(columns, ['id', 'twice', 'upper(region)']);
  assert.deepEqual(found, [[1, 200, 'NORTH'], [2, 100, 'NORTH']]);
});

test('an empty field is null, and null is never equal', () => {
  assert.deepEqual(rows('select id from sales where amount is null'), [[5]]);
  assert.deepEqual(rows('select id from sales where amount = null'), []);
  assert.deepEqual(rows('select null and false, null or true, not null'), [[false, true, null]]);
});

test('null comes last, or first in descending order, unless the query says otherwise', () => {
  const ids = (order) => rows(`select id from sales where region = 'south' order by amount ${order}`).flat();
  assert.deepEqual(ids(''), [6, 3, 5]);
  assert.deepEqual(ids('desc'), [5, 3, 6]);
  assert.deepEqual(ids('desc nulls last'), [3, 6, 5]);
  assert.deepEqual(ids('nulls first'), [5, 6, 3]);
});

test('rows are grouped', () => {
  assert.deepEqual(
    rows('select region, count(*), count(amount), sum(amount) from sales group by region order by 1'),
    [['east', 1, 1, 70], ['north', 4, 4, 400], ['south', 3, 2, 100]],
  );
  assert.deepEqual(rows('select count(*), sum(amount), max(day) from sales where id > 99'), [[0, null, null]]);
});

test('HAVING and ORDER BY may use other aggregates than SELECT', () => {
  assert.deepEqual(
    rows('select region from sales group by region having count(*) > 1 order by avg(amount) desc'),
    [['north'], ['south']],
  );
});

test('what is neither a key nor an aggregate is refused', () => {
  assert.throws(() => rows('select seller, count(*) from sales group by region'), /'seller' must be in GROUP BY/);
  assert.throws(() => rows('select * from sales group by region'), /must be in GROUP BY/);
  assert.throws(() => rows('select id from sales where count(*) > 1'), /count\(\) is not allowed in WHERE/);
});

test('distinct aggregates take each value once', () => {
  assert.deepEqual(rows('select count(distinct seller), sum(distinct amount) from sales'), [[5, 450]]);
});

test('tables are joined', () => {
  assert.deepEqual(
    rows("select id, team from sales join sellers on seller = name where team = 'blue' order by id"),
    [[2, 'blue'], [7, 'blue']],
  );
  assert.deepEqual(
    rows('select name, count(id) from sellers left join sales on seller = name and amount > 60 group by name order by name'),
    [['Ana', 1], ['Ben', 1], ['Cleo', 1], ['Dan', 0], ['Fay', 0]],
  );
  assert.equal(rows('select * from sales a cross join sellers b').length, 40);
});

test('USING shows the shared column once', () => {
  const { columns, rows: found } = run('select * from (select id, seller name from sales) s join sellers using (name) limit 1');
  assert.deepEqual(columns, ['id', 'name', 'team', 'active']);
  assert.deepEqual(found, [[1, 'Ana', 'red', true]]);
});

test('queries are combined', () => {
  assert.deepEqual(rows('select region from sales union select team from sellers where team is not null order by 1').flat(),
    ['blue', 'east', 'north', 'red', 'south']);
  assert.deepEqual(rows('select name from sellers except select seller from sales').flat(), ['Fay']);
  assert.deepEqual(rows('select seller from sales intersect all select name from sellers').flat(),
    ['Ana', 'Ben', 'Cleo', 'Dan']);
});

test('queries inside queries', () => {
  assert.deepEqual(rows('select id from sales where amount = (select max(amount) from sales)'), [[7]]);
  assert.deepEqual(rows('select count(*) from sales where seller in (select name from sellers where active)'), [[5]]);
  assert.deepEqual(rows('with big as (select * from sales where amount > 60), n as (select count(*) c from big) select c from n'), [[4]]);
});

test('DISTINCT, LIMIT and OFFSET', () => {
  assert.deepEqual(rows('select distinct region from sales order by region limit 2 offset 1'), [['north'], ['south']]);
  assert.throws(() => rows('select distinct region from sales order by id'), /with DISTINCT/);
});

test('a misspelt name gets a suggestion', () => {
  assert.throws(() => rows('select amout from sales'), /did you mean 'amount'/);
  assert.throws(() => rows('select * from sale'), /did you mean 'sales'/);
  assert.throws(() => rows('select lenght(seller) from sales'), /did you mean length\(\)/);
});
