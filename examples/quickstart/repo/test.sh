# Tests one script: sh test.sh NAME. Prints the first failure and exits with 1.
name=$1
check() { # check EXPECTED ARGUMENT...
  expected=$1
  shift
  found=$(sh "$name.sh" "$@")
  [ "$found" = "$expected" ] || { echo "$name.sh $*: expected $expected, found $found"; exit 1; }
}
case $name in
clamp) check 0 -5 10; check 7 7 10; check 10 12 10 ;;
digits) check 6 123; check 7 7; check 10 190 ;;
factorial) check 1 1; check 6 3; check 120 5 ;;
fizz) check fizz 9; check buzz 10; check fizzbuzz 15; check 7 7 ;;
grade) check fail 49; check pass 50; check pass 51 ;;
last) check c a b c; check a a; check none ;;
leap) check common 2023; check leap 2024; check common 1900; check leap 2000 ;;
max) check 5 3 5; check 5 5 3; check 4 4 4 ;;
parity) check even 4; check odd 7; check even 0 ;;
sum) check 6 1 2 3; check 5 5; check 0 ;;
*) echo "unknown script: $name"; exit 1 ;;
esac
echo "$name.sh passes"
