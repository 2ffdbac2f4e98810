# Prints "fizz" for multiples of 3, "buzz" for multiples of 5, "fizzbuzz" for both, else $1.
word=
[ $(($1 % 3)) -ne 0 ] || word=fizz
[ $(($1 % 5)) -ne 0 ] || word=buzz
echo "${word:-$1}"
