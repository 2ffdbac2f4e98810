# Prints "even" or "odd".
if [ $(($1 % 2)) -eq 1 ]; then
  echo even
else
  echo odd
fi
