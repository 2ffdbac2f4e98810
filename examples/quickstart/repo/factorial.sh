# Prints the factorial of $1.
product=1
i=1
while [ "$i" -lt "$1" ]; do
  product=$((product * i))
  i=$((i + 1))
done
echo "$product"
